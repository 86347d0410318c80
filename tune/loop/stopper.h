// Stop conditions: end a trial that its scheduler would continue, or end all trials.
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

// Here and below an empty metric means the experiment's.
struct TrialPlateauOptions {
  std::string metric = {};
  double std = 0.01;         // Ends a trial when the standard deviation of its last results is below this.
  int64_t num_results = 4;   // Number of last results considered; at least 2. Fewer while there are not as many yet.
  int64_t grace_period = 4;  // Results before a trial may end; at least 1.
  std::optional<double> metric_threshold = std::nullopt;  // Applies only if the last result is at least as good as
                                                          // this.
  std::optional<Mode> mode = std::nullopt;                // Direction of the threshold; by default the experiment's.
};
struct ExperimentPlateauOptions {
  std::string metric = {};
  double std = 0.001;    // Ends the experiment when the standard deviation of the best results of all trials is at most
                         // this.
  int64_t top = 10;      // Number of best results considered; at least 2.
  int64_t patience = 0;  // Further consecutive results that must meet the condition after the first one.
  std::optional<Mode> mode = std::nullopt;
};
struct NanStopOptions {
  std::string metric = {};
  int64_t tolerated = 0;   // Number of consecutive NaN results tolerated.
  bool infinities = true;  // Whether infinities count as well.
};

// Ends a trial at the first result that satisfies any of the conditions. Empty: never.
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
  // The shortest timeout of the experiment; no value: none.
  std::optional<std::chrono::nanoseconds> timeout() const;
  // Steps after which every trial ends; no value: unlimited.
  std::optional<int64_t> steps_max() const;
  // kInvalidArgument: a NaN threshold, steps < 1, no time, an empty function or metric name, an option out of range, or
  // two conditions of which one can never apply. `metric`: the experiment's; may be empty.
  [[nodiscard]] Result<void> validate(std::string_view metric) const;

 private:
  friend Stop any_of(std::initializer_list<Stop> stops);
  std::vector<Condition> conditions_;
};

Stop at_least(std::string metric, double value);
Stop at_most(std::string metric, double value);
Stop max_steps(int64_t steps);
Stop max_time(std::chrono::nanoseconds time);  // Limit on time spent in steps over all attempts; checked after each
                                               // result.
Stop stop_when(Stop::Function function);
// Ends a diverged trial with status kStopped.
Stop stop_on_nan(NanStopOptions options = {});
// Ends a converged trial.
Stop trial_plateau(TrialPlateauOptions options = {});
// These three end all trials as an interrupt does: current steps finish and checkpoints are saved.
Stop experiment_plateau(ExperimentPlateauOptions options = {});
Stop timeout(
    std::chrono::nanoseconds time);  // From the start of the run, as time_budget; the shorter of the two applies.
Stop stop_all_when(Stop::Function function);
Stop any_of(std::initializer_list<Stop> stops);

// Evaluates the conditions and keeps their state for each trial. Uses no clock; apart from functions of the user,
// decisions depend on the arguments only. O(num_results + top) per result.
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
  // No value: the trial continues. Thresholds, functions and limits see every result, including steps repeated after a
  // failure; the other conditions count each step once. NaN reaches no threshold and is no plateau. Rethrows exceptions
  // of functions of the user.
  std::optional<Outcome> check(const Query& query);
  // Discards the state of the trial.
  void on_complete(TrialId trial);

  // As in Scheduler.
  std::string snapshot() const;
  [[nodiscard]] Result<void> restore(std::string_view snapshot);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace volador::tune
