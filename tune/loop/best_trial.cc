#include "tune/loop/best_trial.h"

#include <algorithm>

namespace volador::tune {

Standing standing_of(const MetricSummary& summary, Scope scope, Mode mode) {
  switch (scope) {
    case Scope::kLast:
      return {summary.last, summary.last_step};
    case Scope::kAll:
      return {summary.best(mode), mode == Mode::kMax ? summary.max_step : summary.min_step};
    case Scope::kAverage:
      return {summary.mean, summary.last_step};
  }
  return {summary.last, summary.last_step};
}

std::vector<BestTrial> rank_trials(const std::vector<Trial>& trials, std::string_view metric, Mode mode, Scope scope) {
  std::vector<BestTrial> ranking;
  for (const Trial& trial : trials) {
    const auto found = trial.metrics.find(metric);
    if (found == trial.metrics.end()) continue;
    const Standing standing = standing_of(found->second, scope, mode);
    ranking.push_back({&trial, standing.value, standing.step});
  }
  std::ranges::sort(ranking, [mode](const BestTrial& a, const BestTrial& b) {
    if (better(a.value, b.value, mode)) return true;
    return !better(b.value, a.value, mode) && a.trial->index < b.trial->index;
  });
  return ranking;
}

void BestOfTrials::add(const Trial& trial, const MetricSummary& summary) {
  const Standing standing = standing_of(summary, scope_, mode_);
  if (!is_result(standing.value)) return;
  if (!best_ || better(standing.value, best_->value, mode_)) best_ = {&trial, standing.value, standing.step};
}

}  // namespace volador::tune
