// Saved runs as text for people and as JSON for programs. The JSON form is stable, as that of json_view.h.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal.h"
#include "tune/run_comparison.h"
#include "tune/saved_run.h"
#include "tune/trial_story.h"

namespace volador::cli {

std::string runs_text(const std::vector<tune::RunSummary>& runs, const Terminal& terminal);
std::string runs_json(const std::vector<tune::RunSummary>& runs);

// At most `limit` trials, best first.
std::string run_text(const tune::SavedRun& run, size_t limit, const Terminal& terminal);
std::string run_json(const tune::SavedRun& run);

std::string story_text(const tune::TrialStory& story, const Terminal& terminal);
std::string story_json(const tune::TrialStory& story);

std::string comparison_text(const tune::RunComparison& comparison, const Terminal& terminal);
std::string comparison_json(const tune::RunComparison& comparison);

}  // namespace volador::cli
