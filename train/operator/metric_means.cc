#include "train/operator/metric_means.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace volador::train {

size_t MetricSums::index_of(const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  names.push_back(name);
  sums.push_back(0);
  weights.push_back(0);
  last.push_back(std::numeric_limits<double>::quiet_NaN());
  return names.size() - 1;
}

void MetricSums::add(const Metrics& metrics, double samples_of_batch) {
  const double weight = metrics.get("num_samples").value_or(samples_of_batch);
  ++batches;
  samples += weight;
  for (const auto& [name, value] : metrics) {
    if (name == "num_samples" || weight == 0) continue;
    const size_t index = index_of(name);
    sums[index] += value * weight;
    weights[index] += weight;
    last[index] = value;
  }
}

void MetricSums::add_rank(const MetricSums& other) {
  merge(other, false);
  batches = std::max(batches, other.batches);
}

void MetricSums::add_part(const MetricSums& other) {
  merge(other, true);
  batches += other.batches;
}

void MetricSums::merge(const MetricSums& other, bool is_later) {
  for (size_t i = 0; i < other.names.size(); ++i) {
    const size_t index = index_of(other.names[i]);
    sums[index] += other.sums[i];
    weights[index] += other.weights[i];
    if (is_later ? !std::isnan(other.last[i]) : std::isnan(last[index])) last[index] = other.last[i];
  }
  samples += other.samples;
}

Metrics MetricSums::means(bool with_last) const {
  Metrics metrics;
  for (size_t i = 0; i < names.size(); ++i) {
    metrics.set(names[i], weights[i] > 0 ? sums[i] / weights[i] : std::numeric_limits<double>::quiet_NaN());
  }
  if (with_last) {
    for (size_t i = 0; i < names.size(); ++i) metrics.set("last_" + names[i], last[i]);
  }
  metrics.set("num_samples", samples);
  metrics.set("batch_count", static_cast<double>(batches));
  return metrics;
}

}  // namespace volador::train
