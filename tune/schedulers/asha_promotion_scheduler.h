// Asynchronous successive halving as in its paper: trials pause at each rung and the best are promoted. Pure: no clock,
// thread, I/O or randomness.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tune/schedulers/asha_scheduler.h"

namespace volador::tune {

// Li et al., MLSys 2020, algorithm 2. When a trial reaches a rung, its slot goes to the best trial of the highest rung
// that has an unpromoted trial among its best floor(n / reduction_factor); often this is the trial itself, which
// continues. If no rung has one, a new trial gets the slot. Once no more trials are added, all promotable trials
// continue, and when nothing runs the remaining paused trials are stopped. NaN is never promoted; among equal trials
// the first to arrive is promoted. O(log n) per event.
class AshaPromotionScheduler final : public Scheduler {
 public:
  // kInvalidArgument: as AshaScheduler; also if brackets is not 1 or rule is not kInclusive.
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
