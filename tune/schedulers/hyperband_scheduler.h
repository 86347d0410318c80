// Synchronous HyperBand: the trials of a bracket wait for each other at each rung, and the best continue. Pure: no
// clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tune/schedulers/scheduler.h"

namespace volador::tune {

enum class HyperBandRule : uint8_t {
  kFilled,  // Brackets and rungs of the paper. A bracket halves once all its trials have arrived, or no more trials are
            // added. A trial that reaches max_t ends at once.
  kRay,     // Brackets and rungs of Ray Tune. A bracket halves as soon as its present trials have arrived, however few;
            // the trials of the last rung end together.
};

struct HyperBandOptions {
  int64_t max_t = 81;  // Steps of a full run; at least 1.
  double eta = 3;      // The best 1/eta of a rung continue; above 1.
  HyperBandRule rule = HyperBandRule::kFilled;
  bool stop_last_trials = true;  // Whether a trial ends at its last rung.
  int only_bracket = -1;  // Uses this s for every bracket: successive halving, usually with hyperband_brackets() - 1;
                          // -1: cycles through all.
  bool largest_first = false;  // Starts with the bracket that halves most often, as Ray Tune's HyperBandForBOHB.
};

struct HyperBandRung {
  int64_t trials = 0;
  int64_t steps = 0;
  bool operator==(const HyperBandRung&) const = default;
};
// Returns the number of brackets: floor(log_eta max_t) + 1 in the paper; Ray Tune rounds the logarithm to the nearest
// integer and omits the last bracket if max_t is too short for it.
int hyperband_brackets(int64_t max_t, double eta, HyperBandRule rule = HyperBandRule::kFilled);
// Returns the rungs of the bracket with s halvings (s = 0: full runs only), lowest first; empty if max_t is too short
// for it. In the paper, with n = ceil(brackets / (s + 1) * eta^s), rung i of bracket s has floor(n / eta^i) trials of
// floor(max_t / eta^(s - i)) steps: max_t steps at the last rung. Ray Tune starts with floor(max_t / eta^s) steps and
// multiplies and truncates at each rung, so that its last rung may lie below max_t, and rounds the number of trials up.
// Rungs with the same number of steps are merged.
std::vector<HyperBandRung> hyperband_ladder(int64_t max_t, double eta, int s,
                                            HyperBandRule rule = HyperBandRule::kFilled);

// Trials first fill the bracket of full runs, then brackets that halve more and more often, then start over (Li et al.,
// JMLR 2018, in Ray Tune's order). A trial pauses at its rung. When the last trial arrives or fails, or no more trials
// are added, the best 1/eta of the rung continue and the others are stopped. O(log n) per report, amortised.
class HyperBandScheduler final : public Scheduler {
 public:
  // kInvalidArgument: an option is out of range; the message names it.
  [[nodiscard]] static Result<std::unique_ptr<HyperBandScheduler>> create(const HyperBandOptions& options,
                                                                          const SchedulerContext& context);
  ~HyperBandScheduler() override;

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

  // Current rung of each bracket and its number of live trials, for tables.
  struct BracketState {
    int s;
    size_t rung;
    int64_t milestone;
    int64_t live;
  };
  std::vector<BracketState> brackets() const;

 private:
  struct State;
  HyperBandScheduler(const HyperBandOptions& options, const SchedulerContext& context);
  std::unique_ptr<State> state_;
};

SchedulerFactory hyperband(const HyperBandOptions& options = {});
// HyperBand with the largest bracket first, which gives tune::bohb() results to learn from early.
SchedulerFactory hyperband_for_bohb(HyperBandOptions options = {});

}  // namespace volador::tune
