// Rules by which a trial stops early, as Katib's collectors apply them.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/katib/collection.h"
#include "experiments/katib/metric_point.h"

namespace volador::experiments::katib {

class StoppingRules {
 public:
  StoppingRules(const Objective& objective, std::vector<StoppingRule> rules);

  // A report of a metric. A rule compares from the report `start_step` of its metric on: the best value of the
  // objective so far, or the reported value of another metric. A rule that was met once stays so.
  //
  // Returns whether all rules are met: the trial stops. Without rules it never does. NaN is no better value and meets no
  // rule.
  bool on_report(const MetricPoint& point);

 private:
  const std::string objective_;
  const bool maximize_;
  const bool any_;
  std::vector<StoppingRule> waiting_;
  std::optional<double> best_;
  std::map<std::string, int64_t, std::less<>> reports_;
};

}  // namespace volador::experiments::katib
