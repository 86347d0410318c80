// Metrics reported by the trials of an experiment: their names, and the trial that leads by the experiment's metric.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"
#include "tune/loop/best_trial.h"
#include "tune/loop/metrics.h"

namespace volador::tune {

class MetricBoard {
 public:
  // An empty metric disables ranking.
  MetricBoard(std::string metric, Mode mode) : metric_(std::move(metric)), mode_(mode) {}

  // Adds a result of a trial; `counts` is false if its step was already reported and counted. Returns false if its
  // metric is NaN or infinite. O(log trials), less if the trial does not lead.
  bool add(int64_t index, const Metrics& result, bool counts = true);

  // The best trial as tune/loop/best_trial.h defines it, by kLast or kAll.
  std::optional<int64_t> best(Scope scope = Scope::kLast) const;
  bool reported(std::string_view name) const { return names_.contains(name); }
  // There is a ranking metric, and no trial has ever reported it.
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
  // A tournament tree of the trials: node n holds the better of nodes 2n and 2n + 1; the leaf of trial i is leaves_ +
  // i.
  void rank(int64_t index);
  int64_t winner(int64_t one, int64_t other) const;
  void grow(size_t trials);

  Metrics::Names last_names_;     // Names of the last result; the next result usually has the same.
  std::vector<double> keys_;      // By index: smaller is better; NaN: not ranked.
  std::vector<int64_t> winners_;  // By node, from 1; kNobody if no trial is ranked.
  size_t leaves_ = 0;             // A power of two; at least keys_.size().
  struct Lead {
    int64_t index = 0;
    double value = 0;
  };
  std::optional<Lead> best_so_far_;
};

}  // namespace volador::tune
