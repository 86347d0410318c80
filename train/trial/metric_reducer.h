// Reduction of metrics over the batches and ranks of a trial.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/serialize/codec.h"
#include "train/operator/metric_means.h"

namespace volador::train {

class TrainingOperator;

enum class Reducer : uint8_t {
  kAvg,  // Mean over the samples.
  kSum,  // Over the batches of all ranks.
  kMax,
  kMin,
};
// Reduces the values of all batches, in the order of the ranks.
using ReduceValues = std::function<double(const std::vector<double>& values)>;

// How the metrics of evaluate_batch() become those of the data set.
//   return train::Reducer::kSum;                                                   // All metrics.
//   return {{"hits", train::Reducer::kSum}, {"worst", train::Reducer::kMax}};      // The others: kAvg.
class EvaluationReducer {
 public:
  using One = std::variant<Reducer, ReduceValues>;
  EvaluationReducer(Reducer all = Reducer::kAvg) : others_(all) {}
  EvaluationReducer(ReduceValues all) : others_(std::move(all)) {}
  EvaluationReducer(std::initializer_list<std::pair<const std::string, One>> named) : named_(named) {}

  const One& of(const std::string& metric) const;

 private:
  std::map<std::string, One> named_;
  One others_ = Reducer::kAvg;
};

// A metric that is no mean of batches, such as a confusion matrix: each rank collects in its own object, then the ranks'
// values are reduced together. The trial calls functions of the derived class while it processes batches, in
// train_batch() after the last step_optimizer().
class MetricReducer {
 public:
  virtual ~MetricReducer() = default;
  // Forgets what was collected; called before a validation and after each reduction.
  virtual void reset() = 0;
  // What this rank has collected: tensors, numbers, texts, lists and dictionaries.
  virtual c10::IValue per_slot_reduce() = 0;
  // Metrics from the values of all ranks, in their order; tensors are on the CPU. Called on every rank with the same
  // values.
  virtual Metrics cross_slot_reduce(const std::vector<c10::IValue>& per_slot) = 0;
};

// Collects values and reduces those of all ranks with a function.
class ValuesReducer : public MetricReducer {
 public:
  using Function = std::function<double(const std::vector<c10::IValue>& values)>;
  ValuesReducer(std::string name, Function function) : name_(std::move(name)), function_(std::move(function)) {}
  void update(c10::IValue value) { values_.push_back(std::move(value)); }

  void reset() override { values_.clear(); }
  c10::IValue per_slot_reduce() override;
  Metrics cross_slot_reduce(const std::vector<c10::IValue>& per_slot) override;

 private:
  const std::string name_;
  const Function function_;
  std::vector<c10::IValue> values_;
};

// What a rank has gathered of one metric.
struct ReducedMetric {
  std::string name;
  double sum = 0, weighted_sum = 0, weight = 0;
  double max = 0, min = 0;
  std::vector<double> values;  // Those of all batches; only for a ReduceValues.
};
VOLADOR_FIELDS(ReducedMetric, name, sum, weighted_sum, weight, max, min, values);

// The metrics of a rank's batches. Merged over the ranks, in the order in which the metrics appeared.
class MetricReduction {
 public:
  // The metrics of a batch; "num_samples" among them is its number of samples, else `samples`.
  void add(const Metrics& metrics, double samples, const EvaluationReducer& reducer);
  void merge(const MetricReduction& other);
  Metrics reduce(const EvaluationReducer& reducer) const;
  double samples() const { return samples_; }

  friend void volador_encode(Encoder& encoder, const MetricReduction& value) {
    codec::encode_members(encoder, value.metrics_, value.samples_);
  }
  friend void volador_decode(Decoder& decoder, MetricReduction& value) {
    codec::decode_members(decoder, value.metrics_, value.samples_);
  }

 private:
  ReducedMetric& entry(const std::string& name);
  std::vector<ReducedMetric> metrics_;
  double samples_ = 0;
};

// The bytes of all ranks, in their order. Collective.
std::vector<std::string> gather_bytes(TrainingOperator& ranks, std::string_view own);
// The values of all ranks, in their order, with tensors on the CPU. Collective.
std::vector<c10::IValue> gather_values(TrainingOperator& ranks, const c10::IValue& own);

}  // namespace volador::train
