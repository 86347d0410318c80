#include "worker/store/spill_choice.h"

#include <algorithm>

namespace volador::worker {

std::vector<size_t> choose_spill(std::span<const SpillCandidate> candidates, int64_t missing) {
  std::vector<SpillCandidate> order(candidates.begin(), candidates.end());
  std::sort(order.begin(), order.end(), [](const SpillCandidate& a, const SpillCandidate& b) {
    return a.used != b.used ? a.used < b.used : a.index < b.index;
  });
  int64_t found = 0;
  size_t count = 0;
  while (count < order.size() && found < missing) found += order[count++].bytes;
  order.resize(count);
  // A large last candidate may make some smaller ones before it unnecessary.
  for (size_t i = order.size(); i-- > 0;) {
    if (found - order[i].bytes < missing) continue;
    found -= order[i].bytes;
    order.erase(order.begin() + static_cast<std::ptrdiff_t>(i));
  }
  std::vector<size_t> chosen;
  for (const SpillCandidate& one : order) chosen.push_back(one.index);
  return chosen;
}

}  // namespace volador::worker
