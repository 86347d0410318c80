// Median stopping rule: stops a trial whose best result is worse than the running averages of half of the other trials
// at the same step. Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tune/schedulers/scheduler.h"

namespace volador::tune {

struct MedianStoppingOptions {
  int64_t grace_period = 1;          // Steps before a trial may be stopped; results before it do not count; at least 1.
  int64_t min_samples_required = 3;  // Number of other trials that must have reached the step; at least 1.
  bool hard_stop = true;             // false: the trial is paused, and continues once nothing else is left to start.
};

// Golovin et al., Google Vizier (KDD 2017), as in Ray Tune: compares the best result of a trial so far with the median
// of the means of the other trials' results, ended trials included, from the grace period up to the same step. A
// strictly worse trial is stopped. The comparison runs at each of the first 256 steps and later each time a trial has
// 1/64 more steps, so that memory does not grow with reports. NaN is excluded from means and is never the best; a trial
// that only reported NaN ranks last. O(log trials) per report.
class MedianStoppingScheduler final : public Scheduler {
 public:
  // kInvalidArgument: an option is out of range; the message names it.
  [[nodiscard]] static Result<std::unique_ptr<MedianStoppingScheduler>> create(const MedianStoppingOptions& options,
                                                                               const SchedulerContext& context);
  ~MedianStoppingScheduler() override;

  void on_trial_add(TrialId trial) override;
  Result<Decision> on_report(const Report& report) override;
  void on_complete(TrialId trial) override;
  void on_no_more_trials() override;
  std::vector<Order> take_orders() override;
  std::vector<DecisionRecord> take_decisions() override;
  bool pauses() const override;
  bool needs_metric() const override { return true; }
  std::string describe() const override;
  std::string snapshot() const override;
  Result<void> restore(std::string_view snapshot) override;
  void check_invariants() const override;

 private:
  struct State;
  MedianStoppingScheduler(const MedianStoppingOptions& options, const SchedulerContext& context);
  std::unique_ptr<State> state_;
};

SchedulerFactory median_stopping(const MedianStoppingOptions& options = {});

}  // namespace volador::tune
