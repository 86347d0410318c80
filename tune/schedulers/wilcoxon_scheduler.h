// Wilcoxon pruner: stops trials that are worse than the best one on the same problem instances. Pure: no clock, thread,
// I/O or randomness.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tune/schedulers/scheduler.h"

namespace volador::tune {

struct WilcoxonOptions {
  double p_threshold = 0.1;     // Significance level of the test; 0 to 1.
  int64_t n_startup_steps = 2;  // Instances that both trials must have before a trial is judged; at least 0.
  int64_t steps_max = 1'000;    // Later instances are neither stored nor judged; at least 1.
};

// Optuna's WilcoxonPruner, for trials whose steps are instances of a problem, for example folds of a cross-validation:
// step i of every trial is the same instance, and the score of a trial is the mean of its values. A trial is stopped if
// Wilcoxon's signed-rank test finds it worse than the best completed trial, instance by instance, unless its own mean
// so far is not worse. Steps with NaN are ignored. O(steps · log steps) per report.
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
