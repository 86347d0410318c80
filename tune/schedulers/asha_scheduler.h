// Asynchronous successive halving: decides from the metrics alone which trials continue. Pure: no clock, thread, I/O or
// randomness.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tune/schedulers/scheduler.h"

namespace volador::tune {

// Condition under which a trial passes a rung that n trials, including itself, have reached.
enum class AshaRule : uint8_t {
  kInclusive,  // Fewer than max(floor(n / reduction_factor), 1) are strictly better. NaN never passes.
  kRay,  // At least the percentile of the earlier trials; the first passes; NaN passes. Decisions equal Ray Tune's.
};

enum class AshaVariant : uint8_t {
  kStopping,   // A trial that does not pass its rung is stopped. No trial pauses.
  kPromotion,  // A trial that does not pass pauses and may be promoted later: algorithm 2 of the paper. Trials must
               // save checkpoints.
};

struct AshaOptions {
  int64_t grace_period = 1;     // Steps before a trial may be stopped; at least 1.
  int64_t max_t = 100;          // Steps of a full run; at least grace_period.
  double reduction_factor = 4;  // The best 1/factor of a rung continue; above 1.
  int brackets =
      1;  // At least 1. Bracket s starts at rung s; a trial's bracket depends on its number and the seed only.
  AshaRule rule = AshaRule::kInclusive;
  bool stop_last_trials = true;  // Whether a trial ends at max_t.
  AshaVariant variant = AshaVariant::kStopping;
};

// Returns the milestones of a bracket, lowest first: grace_period × factor^(bracket + k), up to max_t; empty if the
// bracket has none. Computed by multiplication: the usual floor(log(max_t / grace) / log(factor)) loses the top rung of
// 243/3 and 1000/10.
std::vector<double> asha_rungs(double grace_period, int64_t max_t, double reduction_factor, int bracket);

// Stops the trials outside the best 1/reduction_factor of a rung (Li et al., MLSys 2020, algorithm 2, stopping
// variant). A report that skips rungs counts for the highest of them only. A decision costs O(log trials).
class AshaScheduler final : public Scheduler {
 public:
  // kInvalidArgument: an option is out of range; the message names it.
  [[nodiscard]] static Result<std::unique_ptr<AshaScheduler>> create(const AshaOptions& options,
                                                                     const SchedulerContext& context);
  ~AshaScheduler() override;

  void on_trial_add(TrialId trial) override;
  Result<Decision> on_report(const Report& report) override;
  void on_complete(TrialId trial) override;
  std::vector<DecisionRecord> take_decisions() override;
  std::vector<RungState> rungs(size_t members_max) const override;
  std::optional<int64_t> steps_max() const override;
  bool needs_metric() const override { return true; }
  std::string describe() const override;
  std::string snapshot() const override;
  Result<void> restore(std::string_view snapshot) override;
  void check_invariants() const override;

  // Number of trials that have reached each rung, for tables.
  struct RungCount {
    int bracket;
    double milestone;
    int64_t trials;
  };
  std::vector<RungCount> rung_counts() const;

 private:
  struct State;
  AshaScheduler(const AshaOptions& options, const SchedulerContext& context);
  std::unique_ptr<State> state_;
};

SchedulerFactory asha(const AshaOptions& options = {});

}  // namespace volador::tune
