// What trials report, as the store of metrics takes it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace volador::experiments {

// A report of the same trial, group and batches replaces an earlier one.
struct MetricReport {
  int64_t experiment = 0;
  int64_t trial = 0;
  std::string group;    // "training", "validation", or another one.
  int64_t batches = 0;  // Trained so far.
  int64_t time_ms = 0;  // Unix time.
  std::vector<std::pair<std::string, double>> values;
};

// Reports of later batches do not count any more: a run goes on from a checkpoint at these batches.
struct MetricRewind {
  int64_t experiment = 0;
  int64_t trial = 0;
  int64_t batches = 0;
  std::string group = {};  // Only those of this group; empty: of all groups.
};

}  // namespace volador::experiments
