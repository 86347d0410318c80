// Runs as their directories tell of them: ended ones, ones that go on, ones whose program was killed. Needs no cluster.
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
  // "running", "paused", "finished", "interrupted", "failed" as experiment_state.json says; "crashed": it says that it goes on, and no
  // program does so. `volador status` says the same words.
  std::string state;
  bool goes_on() const { return state == "running" || state == "paused"; }
};

// kNotFound: the directory holds no run, or one that was killed before it wrote its state; kInvalidArgument: damaged,
// or of another version. Names the path and the next step.
[[nodiscard]] Result<SavedRun> load_run(const std::filesystem::path& directory);

// kNotFound: the directory holds no journal; kInvalidArgument: damaged, or of another version. Names the path and the next step.
[[nodiscard]] Result<JournalContents> load_journal(const std::filesystem::path& directory);

// Trials as the searcher suggested them: index, id and configuration alone.
std::vector<Trial> suggested_trials(const JournalContents& journal);

// How long a run that goes on still takes, as its program estimated it when it wrote its state, less the time since then. No value: it does
// not go on, or its program had no estimate.
std::optional<TimeLeft> time_left(const SavedRun& run, WallTime now);
// Trials that there will be, of a run that goes on; of another one those that there are.
int64_t trials_total(const SavedRun& run);

// By id or the start of one. kNotFound: there is none, or several start so; the message names near ones, or them.
[[nodiscard]] Result<const Trial*> find_trial(const std::vector<Trial>& trials, std::string_view id);

// The id of the one trial that the run's state file calls so; what was given where there is none, or are several.
std::string id_of_name(const std::filesystem::path& directory, const std::string& name);

// Parameters of which trials have different values, by path, in the order of their first appearance.
std::vector<std::string> varying_parameters(const std::vector<const Trial*>& trials);

// One line of a list.
struct RunSummary {
  std::filesystem::path directory;
  std::string name;
  std::string state;    // As above, or "unreadable".
  std::string problem;  // Why it is unreadable.
  TrialCounts counts;  // The total as of trials_total().
  std::optional<TimeLeft> left;
  std::string metric;
  std::vector<std::string> tags;
  std::optional<double> best, best_so_far;  // By the last values and by the best ones.
  std::string best_trial, best_so_far_trial;
  WallTime started{};
  WallTime written{};  // Of the state that this tells.
};

// Every run right below the folder, or the folder itself where it is one; newest first. One that cannot be read is
// listed with the reason. kNotFound: there is no such folder.
[[nodiscard]] Result<std::vector<RunSummary>> list_runs(const std::filesystem::path& folder, WallTime now);

}  // namespace volador::tune
