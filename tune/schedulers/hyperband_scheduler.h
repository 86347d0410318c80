// HyperBand, synchronous: brackets of trials that wait for each other at each rung, where the best go on.
// Pure: no clock, thread, I/O or randomness.
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
  kFilled,  // Brackets and rungs of the paper. A bracket halves once all its trials have arrived, or no more trials
            // come. A trial that reaches max_t ends at once.
  kRay,     // Brackets and rungs of Ray Tune. A bracket halves as soon as the trials present have arrived, however few;
            // the last rung ends together.
};

struct HyperBandOptions {
  int64_t max_t = 81;  // Steps of a full run; at least 1.
  double eta = 3;      // The best 1/eta of a rung go on; above 1.
  HyperBandRule rule = HyperBandRule::kFilled;
  bool stop_last_trials = true;  // Whether a trial ends at its last rung.
  int only_bracket = -1;  // Every bracket is this s: successive halving, most often at hyperband_brackets() - 1; -1: all by turns.
  bool largest_first = false;  // Begins with the bracket that halves most often; Ray Tune's HyperBandForBOHB does.
};

struct HyperBandRung {
  int64_t trials = 0;
  int64_t steps = 0;
  bool operator==(const HyperBandRung&) const = default;
};
// The number of brackets: floor(log_eta max_t) + 1 in the paper; Ray Tune rounds the logarithm to the nearest integer,
// and leaves out the last bracket where max_t is too short for it.
int hyperband_brackets(int64_t max_t, double eta, HyperBandRule rule = HyperBandRule::kFilled);
// The rungs of the bracket with s halvings (s = 0: full runs only), lowest first; empty where max_t is too short for it.
// With n = ceil(brackets / (s + 1) * eta^s), rung i of s has, in the paper, floor(n / eta^i) trials of
// floor(max_t / eta^(s - i)) steps: max_t steps at the last one. Ray Tune starts from floor(max_t / eta^s) steps,
// multiplies and cuts them off rung by rung, so that its last rung may lie below max_t, and rounds the trials up. Rungs
// of the same number of steps are one rung.
std::vector<HyperBandRung> hyperband_ladder(int64_t max_t, double eta, int s,
                                            HyperBandRule rule = HyperBandRule::kFilled);

// Trials fill the bracket of full runs first, then those that halve more and more often, then again (Li et al., JMLR
// 2018, as Ray Tune orders it). A trial pauses at its rung; the last to arrive, the end of one that failed, or the news
// that no more trials come let the best 1/eta of the rung go on and stop the others. O(log n) a report, amortised.
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

  // For tables: each bracket's place, and how many of its trials take part still.
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
// With the largest bracket first, so that tune::bohb() has what it learns from early.
SchedulerFactory hyperband_for_bohb(HyperBandOptions options = {});

}  // namespace volador::tune
