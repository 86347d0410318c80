// Which trial is the best, and by which of its values: the one definition that the trial loop, Analysis, the commands and the page share.
// Pure.
//
// A trial ranks by its last value of the metric (Scope::kLast, "best at the end") or by the best one that it ever reported (Scope::kAll,
// "best so far"). Equal values rank in the order in which the trials were created, equal steps of one trial by the first. NaN and infinities rank
// last and are never best. Reports without the metric change nothing. A run of several objectives has a metric as well, by default the first
// one, and goes by it. Where one best trial is shown, it is that of Scope::kLast.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "tune/loop/metrics.h"
#include "tune/loop/trial.h"

namespace volador::tune {

// Which value of a metric ranks a trial.
enum class Scope : uint8_t {
  kLast,     // The last one reported.
  kAll,      // The best one it ever reported.
  kAverage,  // The mean of all.
};

struct Standing {
  double value = std::numeric_limits<double>::quiet_NaN();
  int64_t step = 0;  // At which the value was reported; of an average the last step. 0: not known (a run of an earlier Volador).
};
Standing standing_of(const MetricSummary& summary, Scope scope, Mode mode);

struct BestTrial {
  const Trial* trial = nullptr;
  double value = 0;
  int64_t step = 0;
};

// All trials that reported the metric, best first.
std::vector<BestTrial> rank_trials(const std::vector<Trial>& trials, std::string_view metric, Mode mode, Scope scope);

// The best one as trials come, in the order of their creation.
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
