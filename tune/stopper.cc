#include "tune/stopper.h"

#include <fmt/format.h>

#include <cmath>

#include "tune/config.h"

namespace volador::tune {
namespace {

double seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

struct Check {
  const Stop::Query& query;

  std::optional<std::string> operator()(const Stop::Threshold& threshold) const {
    const std::optional<double> value = query.result.get(threshold.metric);
    if (!value) return std::nullopt;
    Stop::Direction direction = threshold.direction;
    if (direction == Stop::Direction::kAuto) {
      const bool down = threshold.metric == query.metric && query.mode == Mode::kMin;
      direction = down ? Stop::Direction::kAtMost : Stop::Direction::kAtLeast;
    }
    const bool reached = direction == Stop::Direction::kAtLeast ? *value >= threshold.value : *value <= threshold.value;
    if (!reached) return std::nullopt;
    return fmt::format("{} {} reached {}", threshold.metric, format_real(*value), format_real(threshold.value));
  }
  std::optional<std::string> operator()(const Stop::MaxSteps& limit) const {
    if (query.step < limit.steps) return std::nullopt;
    return fmt::format("{} steps done", query.step);
  }
  std::optional<std::string> operator()(const Stop::MaxTime& limit) const {
    if (query.time_total_s < seconds(limit.time)) return std::nullopt;
    return fmt::format("it ran for {} s", format_real(seconds(limit.time)));
  }
  std::optional<std::string> operator()(const Stop::Function& function) const {
    if (!function(query.trial, query.result)) return std::nullopt;
    return "the stop function said so";
  }
};

}  // namespace

Stop::Stop(std::initializer_list<std::pair<std::string, double>> thresholds) {
  for (const auto& [metric, value] : thresholds) conditions_.push_back(Threshold{metric, value});
}

std::optional<std::string> Stop::check(const Query& query) const {
  for (const Condition& condition : conditions_) {
    if (auto why = std::visit(Check{query}, condition)) return why;
  }
  return std::nullopt;
}

Result<void> Stop::validate() const {
  const auto refuse = [](std::string message) { return make_error(ErrorCode::kInvalidArgument, std::move(message)); };
  for (const Condition& condition : conditions_) {
    if (const auto* threshold = std::get_if<Threshold>(&condition)) {
      if (threshold->metric.empty()) return refuse("stop: a threshold needs the name of a metric");
      if (std::isnan(threshold->value))
        return refuse(fmt::format("stop.{}: the threshold is nan, which no value reaches", threshold->metric));
    } else if (const auto* limit = std::get_if<MaxSteps>(&condition)) {
      if (limit->steps < 1) return refuse(fmt::format("stop: max_steps is {}, expected at least 1", limit->steps));
    } else if (const auto* time = std::get_if<MaxTime>(&condition)) {
      if (time->time <= std::chrono::nanoseconds::zero())
        return refuse(fmt::format("stop: max_time is {} s, expected more than 0", format_real(seconds(time->time))));
    } else if (!std::get<Function>(condition)) {
      return refuse("stop: stop_when got an empty function");
    }
  }
  return {};
}

Stop at_least(std::string metric, double value) {
  return Stop(Stop::Threshold{std::move(metric), value, Stop::Direction::kAtLeast});
}
Stop at_most(std::string metric, double value) {
  return Stop(Stop::Threshold{std::move(metric), value, Stop::Direction::kAtMost});
}
Stop max_steps(int64_t steps) { return Stop(Stop::MaxSteps{steps}); }
Stop max_time(std::chrono::nanoseconds time) { return Stop(Stop::MaxTime{time}); }
Stop stop_when(Stop::Function function) { return Stop(std::move(function)); }

Stop any_of(std::initializer_list<Stop> stops) {
  Stop out;
  for (const Stop& stop : stops)
    out.conditions_.insert(out.conditions_.end(), stop.conditions_.begin(), stop.conditions_.end());
  return out;
}

}  // namespace volador::tune
