#include "head/shell/failure_throttle.h"

#include <algorithm>

namespace volador::head {

std::chrono::nanoseconds FailureThrottle::wait(BootTime now, const std::string& peer) const {
  const auto found = peers_.find(peer);
  if (found == peers_.end() || found->second.count < options_.failures_max) return {};
  return std::max(std::chrono::nanoseconds(0), found->second.first + options_.window - now);
}

void FailureThrottle::failed(BootTime now, const std::string& peer) {
  Failures& failures = peers_[peer];
  if (failures.count == 0 || now - failures.first >= options_.window) failures = {.count = 0, .first = now};
  ++failures.count;
  if (peers_.size() > options_.peers_max) {
    auto oldest = std::min_element(peers_.begin(), peers_.end(),
                                   [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
    peers_.erase(oldest);
  }
}

}  // namespace volador::head
