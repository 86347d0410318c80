// What an experiment's trials reported: the names, and which trial leads by the experiment's metric.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/result.h"
#include "tune/metrics.h"

namespace volador::tune {

class MetricBoard {
 public:
  // An empty metric ranks nothing.
  MetricBoard(std::string metric, Mode mode) : metric_(std::move(metric)), mode_(mode) {}

  // The last result of a trial. False: its metric is NaN. O(log trials).
  bool add(int64_t index, const Metrics& result);

  // The trial with the best last value, of equal ones the lowest index. NaN is never the best.
  std::optional<int64_t> best() const;
  bool reported(std::string_view name) const { return names_.contains(name); }
  // There is a metric to rank by, and no trial has ever reported it.
  bool missing() const { return !metric_.empty() && !seen_; }
  // kInvalidArgument: "metric "acuracy" was never reported; trials report: accuracy, loss, training_iteration."
  Error missing_error() const { return missing_error(metric_); }
  Error missing_error(const std::string& metric) const;

  void check_invariants() const;

 private:
  std::string metric_;
  Mode mode_;
  bool seen_ = false;
  std::set<std::string, std::less<>> names_;
  std::vector<std::optional<double>> keys_;       // By index: under which the trial is ranked.
  std::set<std::pair<double, int64_t>> ranking_;  // (smaller is better, index)
};

}  // namespace volador::tune
