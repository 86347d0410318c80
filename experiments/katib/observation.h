// The result of a trial of Katib: the least, the greatest and the latest value of each metric.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/katib/experiment_spec.h"
#include "experiments/katib/metric_point.h"

namespace volador::experiments::katib {

inline constexpr const char* kUnavailable = "unavailable";

// Values as they were written; all "unavailable" where the trial reported none.
struct ObservedMetric {
  std::string name, min = kUnavailable, max = kUnavailable, latest = kUnavailable;

  bool operator==(const ObservedMetric&) const = default;
};

// The value that a strategy selects.
const std::string& selected(const ObservedMetric& metric, MetricStrategy strategy);

class Observation {
 public:
  // Observes the objective and its additional metrics.
  explicit Observation(const Objective& objective);

  // Points of other metrics, and values that are no numbers, do not count. NaN is the least and the greatest only if
  // there is nothing else. The latest has the latest time stamp; of equal ones, or without, it is the last one added.
  void add(const MetricPoint& point);

  // Objective first, then the additional metrics in their order.
  const std::vector<ObservedMetric>& metrics() const { return metrics_; }
  // The objective's, by its strategy. None: it was never reported.
  std::optional<double> objective() const;

 private:
  struct Extremes {
    double min = 0, max = 0;
    std::optional<int64_t> latest_ns;
    bool any = false;
  };
  const MetricStrategy strategy_;
  std::vector<ObservedMetric> metrics_;
  std::vector<Extremes> extremes_;  // By the index in metrics_.
  std::map<std::string, size_t, std::less<>> index_;
};

}  // namespace volador::experiments::katib
