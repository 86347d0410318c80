// When a trial ends although its scheduler would let it go on, and when all of them do.
//
//   .stop = {{"accuracy", 0.995}, {"training_iteration", 100}}
//   .stop = tune::any_of({tune::at_most("loss", 0.01), tune::max_steps(100), tune::max_time(10min),
//   tune::stop_on_nan(),
//                         tune::trial_plateau({.std = 0.001, .grace_period = 10}),
//                         tune::stop_when([](tune::TrialId, const tune::Metrics& result) { return result.at("gap") < 0;
//                         })})
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/language/reason.h"
#include "tune/loop/metrics.h"
#include "tune/loop/trial.h"

namespace volador::tune {

// A metric that is empty is the experiment's, here and below.
struct TrialPlateauOptions {
  std::string metric = {};
  double std = 0.01;         // Ends a trial when its last results spread less: their standard deviation is below this.
  int64_t num_results = 4;   // So many last results are looked at; at least 2. Fewer where there are not as many yet.
  int64_t grace_period = 4;  // Results before a trial may end; at least 1.
  std::optional<double> metric_threshold = std::nullopt;  // Only where the last result is at least as good as this.
  std::optional<Mode> mode = std::nullopt;                // Which way that is; by default the experiment's.
};
struct ExperimentPlateauOptions {
  std::string metric = {};
  double std = 0.001;    // Ends the experiment when the best results of all trials spread at most as much.
  int64_t top = 10;      // So many best results are looked at; at least 2.
  int64_t patience = 0;  // Results in a row that must find them so, beyond the first.
  std::optional<Mode> mode = std::nullopt;
};
struct NanStopOptions {
  std::string metric = {};
  int64_t tolerated = 0;   // So many in a row are let pass.
  bool infinities = true;  // Whether they count as well.
};

// Any of its conditions ends the trial at a result. Empty: none.
class Stop {
 public:
  enum class Direction : uint8_t { kAuto, kAtLeast, kAtMost };
  struct Threshold {
    std::string metric;
    double value = 0;
    Direction direction = Direction::kAuto;
  };
  struct MaxSteps {
    int64_t steps;
  };
  struct MaxTime {
    std::chrono::nanoseconds time;
  };
  struct Timeout {
    std::chrono::nanoseconds time;
  };
  using Function = std::function<bool(TrialId, const Metrics&)>;
  struct AllFunction {
    Function function;
  };
  using Condition = std::variant<Threshold, MaxSteps, MaxTime, Function, Timeout, AllFunction, TrialPlateauOptions,
                                 ExperimentPlateauOptions, NanStopOptions>;

  Stop() = default;
  // Thresholds: a trial ends when the value is reached from below (>=). For the experiment's own metric in mode min it
  // is reached from above (<=), unlike in Ray Tune, where a minimised metric would end every trial at its first result.
  Stop(std::initializer_list<std::pair<std::string, double>> thresholds);
  explicit Stop(Condition condition) { conditions_.push_back(std::move(condition)); }

  bool empty() const { return conditions_.empty(); }
  const std::vector<Condition>& conditions() const { return conditions_; }
  // Of the experiment, the shortest one asked for; no value: none.
  std::optional<std::chrono::nanoseconds> timeout() const;
  // Steps after which every trial ends; no value: none is given.
  std::optional<int64_t> steps_max() const;
  // kInvalidArgument: a NaN threshold, steps < 1, no time, an empty function or metric name, an option out of range,
  // two conditions of which one never counts. `metric`: of the experiment, may be empty.
  [[nodiscard]] Result<void> validate(std::string_view metric) const;

 private:
  friend Stop any_of(std::initializer_list<Stop> stops);
  std::vector<Condition> conditions_;
};

Stop at_least(std::string metric, double value);
Stop at_most(std::string metric, double value);
Stop max_steps(int64_t steps);
Stop max_time(std::chrono::nanoseconds time);  // Spent in steps, over all attempts; looked at after each result.
Stop stop_when(Stop::Function function);
// The trial diverged: it ends as stopped.
Stop stop_on_nan(NanStopOptions options = {});
// The trial has converged.
Stop trial_plateau(TrialPlateauOptions options = {});
// These three end all trials as an interrupt does: steps under way end, checkpoints are saved.
Stop experiment_plateau(ExperimentPlateauOptions options = {});
Stop timeout(
    std::chrono::nanoseconds time);  // From the start of the run, as time_budget; the shorter of the two counts.
Stop stop_all_when(Stop::Function function);
Stop any_of(std::initializer_list<Stop> stops);

// The conditions at work: what they have seen of each trial. No clock; functions of the user aside it decides from what
// it is told alone. O(num_results + top) a result.
class Stopper {
 public:
  // `stop` passed validate(metric).
  Stopper(Stop stop, std::string metric, Mode mode);
  ~Stopper();

  struct Query {
    TrialId trial;
    int64_t step = 0;
    double time_total_s = 0;
    const Metrics& result;
  };
  enum class End : uint8_t { kFinish, kStop, kExperiment };
  struct Outcome {
    End end = End::kFinish;
    Reason reason;  // "accuracy 0.996 reached 0.995"
    bool operator==(const Outcome&) const = default;
  };
  // No value: the trial goes on. A threshold, a function and a limit look at every result, also at one that is made up
  // for after a failure; the others count each step once. NaN reaches no threshold and is no plateau. Throws what a
  // function of the user throws.
  std::optional<Outcome> check(const Query& query);
  // Forgets the trial.
  void on_complete(TrialId trial);

  // As of schedulers.
  std::string snapshot() const;
  [[nodiscard]] Result<void> restore(std::string_view snapshot);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace volador::tune
