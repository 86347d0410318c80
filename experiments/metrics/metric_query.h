// Reads the series of one trial: the blocks of its file, overlaid by the reports that are not in the file yet.
#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "experiments/metrics/metric_file.h"

namespace volador::experiments {

struct MetricQuery {
  std::string group;
  std::set<std::string> metrics;  // Empty: all.
  int64_t from = std::numeric_limits<int64_t>::min();
  int64_t to = std::numeric_limits<int64_t>::max();        // Inclusive.
  uint64_t points = std::numeric_limits<uint64_t>::max();  // Points of each series; at least kLeastPoints.

  static constexpr uint64_t kLeastPoints = 5;
};

struct MetricSeries {
  std::string metric;
  std::vector<MetricPoint> points;  // By batches. Not empty.
};

// By name. `recent`: reports of the group; they replace those of the file.
std::vector<MetricSeries> read_series(MetricFile& file, const MetricRows& recent, const MetricQuery& query);

}  // namespace volador::experiments
