// Percentile pruner: stops trials that are worse than a percentile of the completed trials at the same step. Pure: no
// clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tune/schedulers/scheduler.h"

namespace volador::tune {

struct PercentileOptions {
  double percentile = 25;        // 0 to 100: the percentage of best trials that continue. 50 is Optuna's MedianPruner.
  int64_t n_startup_trials = 5;  // Completed trials required before any trial is stopped; at least 0.
  int64_t n_warmup_steps = 0;    // Initial steps of each trial that are not judged; at least 0.
  int64_t interval_steps = 1;    // Steps between judgements; at least 1.
  int64_t n_min_trials = 1;      // Completed trials that must have reported the step; at least 1.
  int64_t steps_max = 1'000;     // Later steps are neither stored nor judged; at least 1.
};

// Optuna's PercentilePruner: compares the best value that a trial has reported so far with the percentile, linearly
// interpolated, of the values that completed trials reported at the same step. A trial that is strictly worse, or that
// reported only NaN, is stopped. Trials stopped by the pruner itself do not count as completed. O(log trials) per
// report.
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
