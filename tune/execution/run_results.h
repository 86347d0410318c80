// Writes the result files of a run's trials: a row is written once it is known whether another one follows. Rows that
// an earlier driver did not write, or wrote partially, are rewritten. On the runner's thread.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tune/execution/run_options.h"
#include "tune/execution/trial_executor.h"
#include "tune/loop/loop_messages.h"
#include "tune/results/experiment_directory.h"
#include "tune/results/experiment_journal.h"
#include "tune/results/result_logger.h"

namespace volador::tune {

class CheckpointStore;

class RunResults {
 public:
  // References must outlive the object.
  RunResults(const RunOptions& options, const ExperimentDirectory& directory)
      : options_(options),
        directory_(directory),
        logger_({.directory = directory.path(), .tensorboard = options.tensorboard}) {}

  // Records where attempts run: those of an earlier driver, and those of this one.
  void note(const JournalPlace& place) { former_places_[{place.trial, place.attempt}] = place; }
  void note(const AttemptPlace& place) { places_[place.trial] = place; }

  // Marks the rows released so far as those of a replay: files that lack some of them, and those of continuing trials,
  // are rewritten.
  void restore(const std::deque<Trial>& trials, bool retries_failed, WallTime now);
  // From here on rows are written to the files.
  void go_live() { is_live_ = true; }

  // Creates the trial's folder and params.json; called again after it has become a copy.
  void start(const Trial& trial, WallTime now) { logger_.start_trial(trial.id, now, trial.config, folder_of(trial)); }
  // Holds the row until release(): before the trial's next row, step or start, or at its end.
  void add(const Trial& trial, const RecordResult& result, WallTime reported);
  void release(TrialId trial, bool done);
  void end(const Trial& trial, WallTime now);
  // Appends a paragraph to error.txt.
  void log_failure(const Trial& trial, const TrialFailed& failure, WallTime now);

  ResultLogger& logger() { return logger_; }
  // Messages to the user about disk problems since the last call.
  std::vector<std::string> take_disk_notices();
  // Called once after the last row; returns a message about lost rows; empty: none.
  std::string finish();

 private:
  static void remove_unknown_checkpoints(CheckpointStore& store, const Trial& trial);

  const RunOptions& options_;
  const ExperimentDirectory& directory_;
  ResultLogger logger_;
  bool is_live_ = false;
  std::unordered_map<TrialId, AttemptPlace> places_;
  std::map<std::pair<uint32_t, int64_t>, JournalPlace> former_places_;  // From attempts of earlier drivers.
  std::unordered_map<TrialId, ResultRow> held_;                         // Last results whose "done" is not known yet.
  std::unordered_map<TrialId, std::vector<ResultRow>> replayed_;
  bool disk_trouble_ = false;
  int64_t rows_lost_ = 0;
};

}  // namespace volador::tune
