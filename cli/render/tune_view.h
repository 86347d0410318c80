// Saved runs as text and as JSON. The JSON format is stable, as that of json_view.h.
#pragma once

#include <string>
#include <vector>

#include "cli/render/terminal.h"
#include "tune/results/replay_audit.h"
#include "tune/results/run_comparison.h"
#include "tune/results/saved_run.h"
#include "tune/results/trial_story.h"
#include "tune/simulation/scheduler_comparison.h"

namespace volador::cli {

std::string runs_text(const std::vector<tune::RunSummary>& runs, const Terminal& terminal);
std::string runs_json(const std::vector<tune::RunSummary>& runs);

// Shows at most `limit` trials, best first.
std::string run_text(const tune::SavedRun& run, size_t limit, const Terminal& terminal);
std::string run_json(const tune::SavedRun& run);

std::string story_text(const tune::TrialStory& story, const Terminal& terminal);
std::string story_json(const tune::TrialStory& story);

std::string replay_text(const tune::ReplayReport& report);
std::string replay_json(const tune::ReplayReport& report);

std::string simulation_text(const tune::SchedulerComparison& comparison);
std::string simulation_json(const tune::SchedulerComparison& comparison);
// The mean best value over time, one column per scheduler.
std::string simulation_csv(const tune::SchedulerComparison& comparison);

std::string comparison_text(const tune::RunComparison& comparison, const Terminal& terminal);
std::string comparison_json(const tune::RunComparison& comparison);

}  // namespace volador::cli
