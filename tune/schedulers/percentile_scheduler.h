// Stops trials that are worse than a percentile of the completed ones at the same step.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tune/schedulers/scheduler.h"

namespace volador::tune {

struct PercentileOptions {
  double percentile = 25;        // 0 to 100: the share of the best that goes on. 50 is Optuna's MedianPruner.
  int64_t n_startup_trials = 5;  // Nothing is stopped before so many completed; at least 0.
  int64_t n_warmup_steps = 0;    // Of each trial, that are not judged; at least 0.
  int64_t interval_steps = 1;    // Steps between judgements; at least 1.
  int64_t n_min_trials = 1;      // Completed trials that must have reported a step; at least 1.
  int64_t steps_max = 1'000;     // Later steps are neither kept nor judged; at least 1.
};

// Optuna's PercentilePruner: the best value that a trial has reported so far is compared with the percentile, linearly
// interpolated, of what completed trials reported at this very step; a trial that is strictly worse, or that reported
// NaN alone, is stopped. Trials that it stopped itself are no measure for others. O(log trials) a report.
class PercentileScheduler final : public Scheduler {
 public:
  // kInvalidArgument: an option is out of range; the message names it.
  [[nodiscard]] static Result<std::unique_ptr<PercentileScheduler>> create(const PercentileOptions& options,
                                                                           const SchedulerContext& context);
  ~PercentileScheduler() override;

  void on_trial_add(TrialId trial) override;
  Result<Decision> on_report(const Report& report) override;
  void on_complete(TrialId trial) override;
  std::vector<DecisionRecord> take_decisions() override;
  bool needs_metric() const override { return true; }
  std::string describe() const override;
  std::string snapshot() const override;
  Result<void> restore(std::string_view snapshot) override;
  void check_invariants() const override;

 private:
  struct State;
  PercentileScheduler(const PercentileOptions& options, const SchedulerContext& context);
  std::unique_ptr<State> state_;
};

SchedulerFactory percentile_pruner(const PercentileOptions& options = {});

}  // namespace volador::tune
