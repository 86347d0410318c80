// What the loop of an experiment needs to know beside searcher and scheduler.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "runtime/result.h"
#include "tune/execution/trial_names.h"
#include "tune/loop/checkpoint_retention.h"
#include "tune/loop/metrics.h"
#include "tune/loop/objectives.h"
#include "tune/loop/stopper.h"
#include "tune/schedulers/scheduler.h"
#include "tune/searchers/searcher.h"

namespace volador::tune {

struct LoopOptions {
  std::string metric = {};  // Ranks trials; empty: no ranking.
  Mode mode = Mode::kMax;
  Goals goals = {};  // Several objectives, constraints: for the searcher.
  uint64_t trial_key = 0;             // Of the trials' ids: see TrialId::of().
  int64_t max_concurrent_trials = 0;  // 0: as many as the cluster takes.
  Stop stop = {};
  std::chrono::nanoseconds time_budget{
      0};  // Of the experiment, from begin(); then it ends as by an interrupt. 0: none.
  std::chrono::nanoseconds stop_grace =
      std::chrono::seconds(30);  // After the time budget, for steps under way and checkpoints.
  int64_t max_failures = 0;      // Tries again after as many failures of a trial; -1: always.
  int64_t max_losses = 10;       // Goes on after as many attempts that ended through no fault of a trial; -1: always.
  bool fail_fast = false;        // The first trial that fails for good ends the experiment.
  std::chrono::nanoseconds retry_backoff{0};  // A trial waits so long after its first failure, twice that after the next one, …
  std::chrono::nanoseconds retry_backoff_max{0};  // … and at most so long.
  bool strict_metric = true;  // The first result must have the metric where searcher or scheduler need it; false: that of a whole trial is enough.
  CheckpointOptions checkpoint = {};
  TrialNaming naming = {};
  bool can_checkpoint = true;  // Whether the trainable saves and loads; false: SaveCheckpoint is never asked for.
};

// kInvalidArgument: an option is out of range, or scheduler or searcher need what there is not: a metric, checkpoints
// to pause trials with; the message names it.
[[nodiscard]] Result<void> validate(const LoopOptions& options, const Searcher& searcher, const Scheduler& scheduler);

}  // namespace volador::tune
