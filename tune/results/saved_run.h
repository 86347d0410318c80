// Runs loaded from their directories: ended, running or killed ones. Needs no cluster.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/clock.h"
#include "runtime/result.h"
#include "tune/loop/trial_counts.h"
#include "tune/results/analysis.h"
#include "tune/results/experiment_journal.h"

namespace volador::tune {

struct SavedRun {
  Analysis analysis;
  // "running", "paused", "finished", "interrupted", "failed" as in experiment_state.json; "crashed": the file has a
  // running state, but no program is running it. `volador status` uses the same words.
  std::string state;
  bool goes_on() const { return state == "running" || state == "paused"; }
};

// kNotFound: the directory contains no run, or one that was killed before it wrote its state; kInvalidArgument:
// corrupt, or of another version. Names the path and the next step.
[[nodiscard]] Result<SavedRun> load_run(const std::filesystem::path& directory);

// kNotFound: the directory contains no journal; kInvalidArgument: corrupt, or of another version. Names the path and
// the next step.
[[nodiscard]] Result<JournalContents> load_journal(const std::filesystem::path& directory);

// Returns the suggested trials with index, id and configuration only.
std::vector<Trial> suggested_trials(const JournalContents& journal);

// Returns the remaining time of a running experiment: its program's last estimate minus the time since then. No value:
// it is not running, or there was no estimate.
std::optional<TimeLeft> time_left(const SavedRun& run, WallTime now);
// Planned number of trials of a running experiment; for others the number of existing ones.
int64_t trials_total(const SavedRun& run);

// Finds a trial by its id or an id prefix. kNotFound: none, or several match; the message names similar ids, or the
// matches.
[[nodiscard]] Result<const Trial*> find_trial(const std::vector<Trial>& trials, std::string_view id);

// Returns the id of the trial with this name in the run's state file; returns `name` if none or several have it.
std::string id_of_name(const std::filesystem::path& directory, const std::string& name);

// Returns the paths of parameters in which the trials differ, in order of first appearance.
std::vector<std::string> varying_parameters(const std::vector<const Trial*>& trials);

// One line of a list of runs.
struct RunSummary {
  std::filesystem::path directory;
  std::string name;
  std::string state;    // As SavedRun::state, or "unreadable".
  std::string problem;  // Why it is unreadable.
  TrialCounts counts;   // The total is that of trials_total().
  std::optional<TimeLeft> left;
  std::string metric;
  std::vector<std::string> tags;
  std::optional<double> best, best_so_far;  // By the last values, and by the best values.
  std::string best_trial, best_so_far_trial;
  WallTime started{};
  WallTime written{};  // Time of the state shown.
};

// Lists the runs directly in the folder, or the folder itself if it is a run; newest first. Unreadable ones are listed
// with the reason. kNotFound: the folder does not exist.
[[nodiscard]] Result<std::vector<RunSummary>> list_runs(const std::filesystem::path& folder, WallTime now);

}  // namespace volador::tune
