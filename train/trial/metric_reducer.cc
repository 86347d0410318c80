#include "train/trial/metric_reducer.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "train/operator/training_operator.h"
#include "train/optim/state_dict.h"

namespace volador::train {
namespace {

// NaN if one of both is.
double larger(double a, double b) { return std::isnan(b) ? b : std::max(a, b); }
double smaller(double a, double b) { return std::isnan(b) ? b : std::min(a, b); }

}  // namespace

const EvaluationReducer::One& EvaluationReducer::of(const std::string& metric) const {
  const auto found = named_.find(metric);
  return found == named_.end() ? others_ : found->second;
}

c10::IValue ValuesReducer::per_slot_reduce() {
  c10::impl::GenericList list(c10::AnyType::get());
  for (const c10::IValue& value : values_) list.push_back(value);
  return list;
}

Metrics ValuesReducer::cross_slot_reduce(const std::vector<c10::IValue>& per_slot) {
  std::vector<c10::IValue> values;
  for (const c10::IValue& slot : per_slot) {
    for (const c10::IValue& value : slot.toListRef()) values.push_back(value);
  }
  return {{name_, function_(values)}};
}

ReducedMetric& MetricReduction::entry(const std::string& name) {
  const auto found = std::find_if(metrics_.begin(), metrics_.end(), [&](const auto& one) { return one.name == name; });
  if (found != metrics_.end()) return *found;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  metrics_.push_back({.name = name, .max = -kInfinity, .min = kInfinity, .values = {}});
  return metrics_.back();
}

void MetricReduction::add(const Metrics& metrics, double samples, const EvaluationReducer& reducer) {
  const double weight = metrics.get("num_samples").value_or(samples);
  samples_ += weight;
  for (const auto& [name, value] : metrics) {
    if (name == "num_samples") continue;
    ReducedMetric& metric = entry(name);
    metric.sum += value;
    metric.weighted_sum += value * weight;
    metric.weight += weight;
    metric.max = larger(metric.max, value);
    metric.min = smaller(metric.min, value);
    if (std::holds_alternative<ReduceValues>(reducer.of(name))) metric.values.push_back(value);
  }
}

void MetricReduction::merge(const MetricReduction& other) {
  samples_ += other.samples_;
  for (const ReducedMetric& more : other.metrics_) {
    ReducedMetric& metric = entry(more.name);
    metric.sum += more.sum;
    metric.weighted_sum += more.weighted_sum;
    metric.weight += more.weight;
    metric.max = larger(metric.max, more.max);
    metric.min = smaller(metric.min, more.min);
    metric.values.insert(metric.values.end(), more.values.begin(), more.values.end());
  }
}

Metrics MetricReduction::reduce(const EvaluationReducer& reducer) const {
  Metrics reduced;
  for (const ReducedMetric& metric : metrics_) {
    const auto& how = reducer.of(metric.name);
    if (const auto* function = std::get_if<ReduceValues>(&how)) {
      reduced.set(metric.name, (*function)(metric.values));
      continue;
    }
    switch (std::get<Reducer>(how)) {
      case Reducer::kAvg:
        reduced.set(metric.name, metric.weighted_sum / metric.weight);
        break;
      case Reducer::kSum:
        reduced.set(metric.name, metric.sum);
        break;
      case Reducer::kMax:
        reduced.set(metric.name, metric.max);
        break;
      case Reducer::kMin:
        reduced.set(metric.name, metric.min);
        break;
    }
  }
  return reduced;
}

std::vector<std::string> gather_bytes(TrainingOperator& ranks, std::string_view own) {
  const auto world = static_cast<size_t>(ranks.world()), rank = static_cast<size_t>(ranks.rank());
  if (world == 1) return {std::string(own)};
  // Only group operations that every transport has: each rank adds its part to zeros.
  torch::Tensor sizes = torch::zeros({ranks.world()}, torch::dtype(torch::kLong).device(ranks.device()));
  sizes[ranks.rank()] = static_cast<int64_t>(own.size());
  ranks.all_reduce(sizes);
  sizes = sizes.cpu();
  const int64_t* size = sizes.const_data_ptr<int64_t>();
  torch::Tensor bytes = torch::zeros({std::accumulate(size, size + world, int64_t{0})}, torch::kByte);
  std::memcpy(bytes.data_ptr<uint8_t>() + std::accumulate(size, size + rank, int64_t{0}), own.data(), own.size());
  bytes = bytes.to(ranks.device());
  if (bytes.numel() > 0) ranks.all_reduce(bytes);
  bytes = bytes.cpu();
  std::vector<std::string> all;
  const char* at = reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>());
  for (size_t i = 0; i < world; at += size[i++]) all.emplace_back(at, static_cast<size_t>(size[i]));
  return all;
}

std::vector<c10::IValue> gather_values(TrainingOperator& ranks, const c10::IValue& own) {
  std::vector<c10::IValue> values;
  for (const std::string& bytes : gather_bytes(ranks, to_bytes(own))) values.push_back(from_bytes(bytes));
  return values;
}

}  // namespace volador::train
