// Definition of the best trial, shared by the trial loop, Analysis, the commands and the dashboard. Pure.
//
// A trial ranks by the last value of the metric (Scope::kLast, "best at the end") or by the best value that it ever
// reported (Scope::kAll, "best so far"). Trials with equal values rank in order of creation; among equal values of one
// trial the first step counts. NaN and infinities rank last and are never best. Reports without the metric change
// nothing. A run with several objectives also ranks by one metric, by default the first objective. A view that shows a
// single best trial uses Scope::kLast.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "tune/loop/metrics.h"
#include "tune/loop/trial.h"

namespace volador::tune {

// Selects the value of a metric that ranks a trial.
enum class Scope : uint8_t {
  kLast,     // The last value reported.
  kAll,      // The best value ever reported.
  kAverage,  // The mean of all values.
};

struct Standing {
  double value = std::numeric_limits<double>::quiet_NaN();
  int64_t step = 0;  // Step of the value; the last step for kAverage. 0: unknown (a run of an earlier Volador).
};
Standing standing_of(const MetricSummary& summary, Scope scope, Mode mode);

struct BestTrial {
  const Trial* trial = nullptr;
  double value = 0;
  int64_t step = 0;
};

// Returns all trials that reported the metric, best first.
std::vector<BestTrial> rank_trials(const std::vector<Trial>& trials, std::string_view metric, Mode mode, Scope scope);

// Tracks the best trial; add() takes trials in order of creation.
class BestOfTrials {
 public:
  BestOfTrials(Mode mode, Scope scope) : mode_(mode), scope_(scope) {}
  void add(const Trial& trial, const MetricSummary& summary);
  const std::optional<BestTrial>& best() const { return best_; }

 private:
  Mode mode_;
  Scope scope_;
  std::optional<BestTrial> best_;
};

}  // namespace volador::tune
