// The median stopping rule: a trial ends when its best result is worse than what half of the others had on average by
// then. Pure: no clock, thread, I/O or randomness.
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
  int64_t min_samples_required = 3;  // So many other trials must have come as far; at least 1.
  bool hard_stop = true;             // false: it is paused, and goes on once nothing else is left to start.
};

// Golovin et al., Google Vizier (KDD 2017), as Ray Tune has it: the best result of a trial so far against the median of
// the means of the others' results from the grace period up to the same step, of ended trials too. Strictly worse stops
// it. Compared at each of the first 256 steps, and later each time a trial has 1/64 more steps: memory does not grow
// with reports. NaN is left out of means and is never the best; a trial that only reported NaN ranks last. O(log
// trials) a report.
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
