// Stops trials that are worse than the best one on the same problem instances.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tune/schedulers/scheduler.h"

namespace volador::tune {

struct WilcoxonOptions {
  double p_threshold = 0.1;     // Of the test; 0 to 1.
  int64_t n_startup_steps = 2;  // Instances that both must have before a trial is judged; at least 0.
  int64_t steps_max = 1'000;    // Later instances are neither kept nor judged; at least 1.
};

// Optuna's WilcoxonPruner, for trials whose steps are instances of a problem, folds of a cross-validation for example:
// step i of every trial is the same instance, and a trial is as good as the mean of its values. A trial is stopped
// where Wilcoxon's signed-rank test says that it is worse than the best completed one, instance by instance, unless its
// own mean is no worse so far. Steps of NaN are left out. O(steps · log steps) a report.
class WilcoxonScheduler final : public Scheduler {
 public:
  // kInvalidArgument: an option is out of range; the message names it.
  [[nodiscard]] static Result<std::unique_ptr<WilcoxonScheduler>> create(const WilcoxonOptions& options,
                                                                         const SchedulerContext& context);
  ~WilcoxonScheduler() override;

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
  WilcoxonScheduler(const WilcoxonOptions& options, const SchedulerContext& context);
  std::unique_ptr<State> state_;
};

SchedulerFactory wilcoxon_pruner(const WilcoxonOptions& options = {});

}  // namespace volador::tune
