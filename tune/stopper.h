// When a trial ends although its scheduler would let it go on.
//
//   .stop = {{"accuracy", 0.995}, {"training_iteration", 100}}
//   .stop = tune::any_of({tune::at_most("loss", 0.01), tune::max_steps(100), tune::max_time(10min),
//                         tune::stop_when([](tune::TrialId, const tune::Metrics& result) { return result.at("gap") < 0;
//                         })})
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tune/metrics.h"
#include "tune/trial.h"

namespace volador::tune {

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
  using Function = std::function<bool(TrialId, const Metrics&)>;
  using Condition = std::variant<Threshold, MaxSteps, MaxTime, Function>;

  Stop() = default;
  // Thresholds: a trial ends when the value is reached from below (>=). For the experiment's own metric in mode min it
  // is reached from above (<=), unlike in Ray Tune, where a minimised metric would end every trial at its first result.
  Stop(std::initializer_list<std::pair<std::string, double>> thresholds);
  explicit Stop(Condition condition) { conditions_.push_back(std::move(condition)); }

  struct Query {
    TrialId trial;
    int64_t step = 0;
    double time_total_s = 0;
    const Metrics& result;
    const std::string& metric;  // The experiment's.
    Mode mode = Mode::kMax;
  };
  // Why the trial ends, for people: "accuracy 0.996 reached 0.995". NaN reaches nothing. No value: it goes on.
  std::optional<std::string> check(const Query& query) const;

  bool empty() const { return conditions_.empty(); }
  const std::vector<Condition>& conditions() const { return conditions_; }
  // kInvalidArgument: a NaN threshold, steps < 1, no time, an empty function or metric name.
  [[nodiscard]] Result<void> validate() const;

 private:
  friend Stop any_of(std::initializer_list<Stop> stops);
  std::vector<Condition> conditions_;
};

Stop at_least(std::string metric, double value);
Stop at_most(std::string metric, double value);
Stop max_steps(int64_t steps);
Stop max_time(std::chrono::nanoseconds time);  // Spent in steps, over all attempts; looked at after each result.
Stop stop_when(Stop::Function function);
Stop any_of(std::initializer_list<Stop> stops);

}  // namespace volador::tune
