// Trials of earlier runs for the searcher of a new one: .warm_start =
// {"/home/me/volador_results/digits_2026-11-21_10-02-11"}.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/result.h"
#include "tune/loop/objectives.h"
#include "tune/results/experiment_journal.h"
#include "tune/searchers/searcher.h"
#include "tune/space/space.h"

namespace volador::tune {

struct WarmStart {
  std::vector<EarlierTrial> trials;  // Oldest run first, in the order of the trials.
  std::vector<std::string> notices;  // What of which run was taken, and what was not.
};

struct WarmStartOptions {
  std::vector<std::filesystem::path> runs;
  Space space;  // Of the new run, as its metric and goals.
  std::string metric;
  Goals goals;
  bool with_curves = true;  // Also what trials reported on their way.
};

// The trials that ended in these runs and are configurations of the space. kNotFound, kInvalidArgument: a folder holds
// no run, or another one than was meant: it never reported the metric, or none of its configurations is one of this
// space (the message shows where the spaces differ first).
[[nodiscard]] Result<WarmStart> read_earlier_runs(const WarmStartOptions& options);

// As the journal keeps them, so that a resume needs none of those folders.
JournalEarlierTrial journal_record_of(const EarlierTrial& trial);
std::vector<EarlierTrial> earlier_trials_of(const std::vector<JournalRecord>& records);

}  // namespace volador::tune
