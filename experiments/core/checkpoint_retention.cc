#include "experiments/core/checkpoint_retention.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace volador::experiments {

std::vector<CheckpointVerdict> judge_checkpoints(const std::vector<CheckpointEntry>& checkpoints,
                                                 const CheckpointRetention& policy) {
  std::vector<CheckpointVerdict> verdicts(checkpoints.size());
  std::vector<size_t> validated;
  for (size_t i = 0; i < checkpoints.size(); ++i) {
    verdicts[i].registered = checkpoints[i].registered;
    verdicts[i].warm_start = checkpoints[i].warm_start;
    if (checkpoints[i].metric && !std::isnan(*checkpoints[i].metric)) validated.push_back(i);
  }
  std::stable_sort(validated.begin(), validated.end(), [&](size_t a, size_t b) {
    const CheckpointEntry &one = checkpoints[a], &other = checkpoints[b];
    const double sign = policy.smaller_is_better ? 1 : -1;
    return std::tuple(sign * *one.metric, one.validation) < std::tuple(sign * *other.metric, other.validation);
  });
  std::map<int64_t, int64_t> best, latest;  // Number so far, by trial.
  for (size_t rank = 0; rank < validated.size(); ++rank) {
    CheckpointVerdict& verdict = verdicts[validated[rank]];
    verdict.experiment_best = static_cast<int64_t>(rank) < policy.save_experiment_best;
    verdict.trial_best = best[checkpoints[validated[rank]].trial]++ < policy.save_trial_best;
  }
  for (size_t i = checkpoints.size(); i-- > 0;)
    verdicts[i].trial_latest = latest[checkpoints[i].trial]++ < policy.save_trial_latest;
  return verdicts;
}

}  // namespace volador::experiments
