#include "experiments/katib/observation.h"

#include <cmath>

namespace volador::experiments::katib {
namespace {

MetricStrategy strategy_of_objective(const Objective& objective) {
  const auto given = objective.strategies.find(objective.metric);
  if (given != objective.strategies.end()) return given->second;
  return objective.maximize ? MetricStrategy::kMax : MetricStrategy::kMin;
}

}  // namespace

const std::string& selected(const ObservedMetric& metric, MetricStrategy strategy) {
  switch (strategy) {
    case MetricStrategy::kMin:
      return metric.min;
    case MetricStrategy::kMax:
      return metric.max;
    case MetricStrategy::kLatest:
      break;
  }
  return metric.latest;
}

Observation::Observation(const Objective& objective) : strategy_(strategy_of_objective(objective)) {
  std::vector<std::string> names{objective.metric};
  names.insert(names.end(), objective.additional_metrics.begin(), objective.additional_metrics.end());
  for (const std::string& name : names) {
    if (!index_.emplace(name, metrics_.size()).second) continue;
    metrics_.emplace_back().name = name;
  }
  extremes_.resize(metrics_.size());
}

void Observation::add(const MetricPoint& point) {
  const auto found = index_.find(point.metric);
  const auto value = number_of(point.value);
  if (found == index_.end() || !value) return;
  ObservedMetric& metric = metrics_[found->second];
  Extremes& extremes = extremes_[found->second];
  if (!extremes.any || *value < extremes.min || std::isnan(extremes.min)) {
    extremes.min = *value;
    metric.min = point.value;
  }
  if (!extremes.any || *value > extremes.max || std::isnan(extremes.max)) {
    extremes.max = *value;
    metric.max = point.value;
  }
  const bool is_earlier = extremes.latest_ns && (!point.time_ns || *point.time_ns < *extremes.latest_ns);
  if (!is_earlier) {
    extremes.latest_ns = point.time_ns;
    metric.latest = point.value;
  }
  extremes.any = true;
}

std::optional<double> Observation::objective() const { return number_of(selected(metrics_.front(), strategy_)); }

}  // namespace volador::experiments::katib
