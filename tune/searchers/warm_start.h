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
  std::vector<std::string> notices;  // Messages on the data taken from each run and on what was skipped.
};

struct WarmStartOptions {
  std::vector<std::filesystem::path> runs;
  Space space;  // Space of the new run, as are metric and goals.
  std::string metric;
  Goals goals;
  bool with_curves = true;  // Include the intermediate results of trials.
};

// Returns the ended trials of these runs whose configurations belong to the space. kNotFound, kInvalidArgument: a
// folder contains no run, or an unsuitable one: it never reported the metric, or none of its configurations belongs to
// this space (the message shows the first difference between the spaces).
[[nodiscard]] Result<WarmStart> read_earlier_runs(const WarmStartOptions& options);

// Conversion to and from journal records, so that a resumed run does not need the earlier folders.
JournalEarlierTrial journal_record_of(const EarlierTrial& trial);
std::vector<EarlierTrial> earlier_trials_of(const std::vector<JournalRecord>& records);

}  // namespace volador::tune
