// Asynchronous successive halving as its paper has it: trials pause at each rung and the best of them are promoted.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tune/schedulers/asha_scheduler.h"

namespace volador::tune {

// Li et al., MLSys 2020, algorithm 2. A trial that reaches a rung gives its place to the trial that is best in the
// highest rung that has one among its best floor(n / reduction_factor) that was not promoted yet; often that is the
// trial itself, which goes on. Where there is none, a new trial gets the place. Once no more trials come all that may
// go on do, and when nothing runs those that still wait are stopped. NaN is never promoted; of equal trials the first
// to arrive goes on. O(log n) an event.
class AshaPromotionScheduler final : public Scheduler {
 public:
  // kInvalidArgument: as of AshaScheduler; also where brackets is not 1 or rule not kInclusive.
  [[nodiscard]] static Result<std::unique_ptr<AshaPromotionScheduler>> create(const AshaOptions& options,
                                                                              const SchedulerContext& context);
  ~AshaPromotionScheduler() override;

  void on_trial_add(TrialId trial) override;
  Result<Decision> on_report(const Report& report) override;
  void on_complete(TrialId trial) override;
  void on_no_more_trials() override;
  std::vector<Order> take_orders() override;
  std::vector<DecisionRecord> take_decisions() override;
  std::vector<RungState> rungs(size_t members_max) const override;
  std::optional<int64_t> steps_max() const override;
  bool pauses() const override { return true; }
  bool needs_metric() const override { return true; }
  std::string describe() const override;
  std::string snapshot() const override;
  Result<void> restore(std::string_view snapshot) override;
  void check_invariants() const override;

 private:
  struct State;
  AshaPromotionScheduler(const AshaOptions& options, const SchedulerContext& context);
  std::unique_ptr<State> state_;
};

}  // namespace volador::tune
