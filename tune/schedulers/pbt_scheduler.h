// Population based training: poor trials become copies of good ones and explore from there. Pure: no clock, thread or
// I/O; randomness from the seed only.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tune/schedulers/pbt_explore.h"
#include "tune/schedulers/scheduler.h"

namespace volador::tune {

struct PbtOptions {
  int64_t perturbation_interval = 10;  // Steps between perturbations of a trial; at least 1.
  int64_t burn_in_period = 0;          // Steps before the first perturbation; at least 0.
  Space hyperparam_mutations = {};     // {{"lr", tune::loguniform(1e-4, 1e-1)}, {"batch", tune::choice({16, 32, 64})}}
  double quantile_fraction = 0.25;     // Fraction of worst trials that copy one of the same fraction of best trials; 0
                                       // to 0.5.
  double resample_probability = 0.25;
  std::array<double, 2> perturbation_factors = {1.2, 0.8};
  std::function<Config(const Config&)> custom_explore_fn = {};  // Applied after the mutations.
  bool synch = false;                                           // All trials wait for each other at each interval.
  bool bandit = false;                                          // Explores as PB2: see tune::pb2().
  PbtRule rule = PbtRule::kClipped;  // kRay also excludes NaN from the worst trials, and skips copying a trial
                                     // without a checkpoint.
};

// Jaderberg et al., "Population Based Training of Neural Networks", 2017, as in Ray Tune: at each interval the
// scheduler records a trial's metric; one of the best saves a checkpoint, one of the worst continues from the
// checkpoint of one of the best with a changed configuration. While other trials wait for a slot, a trial pauses at its
// interval and the trial that is furthest behind continues. O(trials · log trials) per interval of a trial, O(1) for
// reports in between.
class PbtScheduler final : public Scheduler {
 public:
  // kInvalidArgument: an option is out of range; the message names it.
  [[nodiscard]] static Result<std::unique_ptr<PbtScheduler>> create(const PbtOptions& options,
                                                                    const SchedulerContext& context);
  ~PbtScheduler() override;

  void on_trial_config(TrialId trial, Config& config) override;
  void on_trial_add(TrialId trial) override;
  // Additionally kApplication: a user function threw.
  Result<Decision> on_report(const Report& report) override;
  void on_complete(TrialId trial) override;
  void on_checkpoint(TrialId trial, int64_t step) override;
  void on_cloned(const CloneOrder& order, int64_t step) override;
  std::vector<Order> take_orders() override;
  std::vector<DecisionRecord> take_decisions() override;
  bool pauses() const override { return true; }
  bool clones() const override { return true; }
  bool needs_metric() const override { return true; }
  std::string describe() const override;
  std::string snapshot() const override;
  Result<void> restore(std::string_view snapshot) override;
  void check_invariants() const override;

  // For tables: the number of copies made, and each trial's metric at its last interval (NaN: none yet), in the order
  // added.
  int64_t perturbations() const;
  std::vector<double> scores() const;

 private:
  struct State;
  PbtScheduler(const PbtOptions& options, const SchedulerContext& context);
  std::unique_ptr<State> state_;
};

SchedulerFactory pbt(const PbtOptions& options);

struct Pb2Options {
  int64_t perturbation_interval = 10;  // As in PBT.
  int64_t burn_in_period = 0;
  Space hyperparam_bounds = {};  // Numbers only: {{"lr", tune::loguniform(1e-4, 1e-1)}, {"batch",
                                 // tune::randint(8, 65)}}
  double quantile_fraction = 0.25;
  std::function<Config(const Config&)> custom_explore_fn = {};
  bool synch = false;
};

// Parker-Holder, Nguyen, Roberts, Provably Efficient Online Hyperparameter Optimization with Population-Based Bandits,
// NeurIPS 2020: population based training in which copies get the most promising values by a Gaussian process over the
// gains of past values and their times; it uses the newest 100. A copy costs about 5 ms.
SchedulerFactory pb2(const Pb2Options& options);

}  // namespace volador::tune
