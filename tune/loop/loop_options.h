// Options of the trial loop, apart from searcher and scheduler.
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
  std::string metric = {};  // Metric that ranks trials; empty: no ranking.
  Mode mode = Mode::kMax;
  Goals goals = {};                   // Several objectives and constraints, for the searcher.
  uint64_t trial_key = 0;             // Key that trial ids are derived from; see TrialId::of().
  int64_t max_concurrent_trials = 0;  // 0: as many as the cluster can run.
  Stop stop = {};
  std::chrono::nanoseconds time_budget{
      0};  // Duration of the experiment from begin(), after which it ends as after an interrupt. 0: unlimited.
  std::chrono::nanoseconds stop_grace =
      std::chrono::seconds(30);  // Grace period after the time budget for running steps and checkpoints.
  int64_t max_failures = 0;      // Retries per trial after failures; -1: unlimited.
  int64_t max_losses = 10;       // Retries per trial after attempts that ended through no fault of the trial; -1:
                                 // unlimited.
  bool fail_fast = false;        // The first trial that fails permanently ends the experiment.
  std::chrono::nanoseconds retry_backoff{0};  // Delay before the retry after a trial's first failure; doubles with each
                                              // further failure, …
  std::chrono::nanoseconds retry_backoff_max{0};  // … up to this limit.
  bool strict_metric = true;  // The first result must contain the metric if searcher or scheduler need it; false: it
                              // suffices that the trial reports it at some step.
  CheckpointOptions checkpoint = {};
  TrialNaming naming = {};
  bool can_checkpoint = true;  // Whether the trainable can save and load; false: SaveCheckpoint is never emitted.
};

// kInvalidArgument: an option is out of range, or scheduler or searcher require a metric, or checkpoints to pause
// trials, that are not available; the message names it.
[[nodiscard]] Result<void> validate(const LoopOptions& options, const Searcher& searcher, const Scheduler& scheduler);

}  // namespace volador::tune
