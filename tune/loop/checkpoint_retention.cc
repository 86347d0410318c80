#include "tune/loop/checkpoint_retention.h"

#include <algorithm>

namespace volador::tune {

std::vector<Checkpoint> retire_checkpoints(std::vector<Checkpoint>& checkpoints, const CheckpointOptions& options) {
  const auto keep = static_cast<size_t>(options.num_to_keep);
  if (keep == 0 || checkpoints.size() <= keep) return {};
  std::vector<size_t> ranked(checkpoints.size());
  for (size_t i = 0; i < ranked.size(); ++i) ranked[i] = i;
  const bool scored = !options.score_attribute.empty();
  std::sort(ranked.begin(), ranked.end(), [&](size_t a, size_t b) {
    if (scored && better(checkpoints[a].score, checkpoints[b].score, options.score_order)) return true;
    if (scored && better(checkpoints[b].score, checkpoints[a].score, options.score_order)) return false;
    return a > b;  // The later one.
  });
  std::vector<bool> kept(checkpoints.size(), false);
  for (size_t i = 0; i < keep; ++i) kept[ranked[i]] = true;
  kept.back() = true;
  std::vector<Checkpoint> retired;
  std::vector<Checkpoint> left;
  for (size_t i = 0; i < checkpoints.size(); ++i) (kept[i] ? left : retired).push_back(std::move(checkpoints[i]));
  checkpoints = std::move(left);
  return retired;
}

}  // namespace volador::tune
