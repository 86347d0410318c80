// Means of metrics over batches, weighted by their numbers of samples.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/serialize/codec.h"
#include "tune/loop/metrics.h"

namespace volador::train {

using Metrics = tune::Metrics;

// Sums that can be combined over ranks and over parts of an epoch.
struct MetricSums {
  std::vector<std::string> names;  // In the order of their first appearance.
  std::vector<double> sums;        // Sums of value × samples.
  std::vector<double> weights;     // Samples that had this metric.
  std::vector<double> last;        // Value of the last batch.
  double samples = 0;
  int64_t batches = 0;

  // Adds the metrics of a batch; "num_samples" among them is its number of samples, else `samples`.
  void add(const Metrics& metrics, double samples_of_batch);
  // Adds the sums of another rank for the same batches.
  void add_rank(const MetricSums& other);
  // Adds the sums of later batches.
  void add_part(const MetricSums& other);
  // Each metric's mean, with `last` also last_<name>; then num_samples and batch_count.
  Metrics means(bool with_last) const;

 private:
  void merge(const MetricSums& other, bool is_later);
  size_t index_of(const std::string& name);
};
VOLADOR_FIELDS(MetricSums, names, sums, weights, last, samples, batches);

}  // namespace volador::train
