// Total time that a process has been without a head.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "runtime/clock.h"

namespace volador {

// A returned head counts as unreachable for a while: nodes may not have reconnected, and their actors are parked until
// they do.
class OutageClock {
 public:
  static constexpr std::chrono::nanoseconds kNodesComeBack = std::chrono::seconds(5);

  // Repeated: no effect.
  void lost(BootTime now) {
    if (lost_at_ && !back_at_) return;
    before_ = total(now);
    lost_at_ = now;
    back_at_.reset();
  }
  void back(BootTime now) {
    if (lost_at_ && !back_at_) back_at_ = now;
  }

  std::chrono::nanoseconds total(BootTime now) const {
    if (!lost_at_) return before_;
    return before_ + (back_at_ ? std::min(now, *back_at_ + kNodesComeBack) : now) - *lost_at_;
  }

 private:
  std::chrono::nanoseconds before_{0};  // Total before the last outage.
  std::optional<BootTime> lost_at_;
  std::optional<BootTime> back_at_;
};

}  // namespace volador
