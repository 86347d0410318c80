// Token bucket: units per second with a burst. Pure: the caller passes the time.
#pragma once

#include <algorithm>
#include <chrono>

#include "runtime/clock.h"

namespace volador::worker {

// Token bucket. Not thread safe.
class RateLimit {
 public:
  RateLimit(double per_second, double burst) : per_second_(per_second), burst_(burst), left_(burst) {}

  // Whether `units` may pass now; takes them if so.
  bool take(BootTime now, double units) {
    refill(now);
    if (left_ < units) return false;
    left_ -= units;
    return true;
  }
  // Takes the units in any case; returns how long to wait until the bucket is out of debt, 0 if it is not in debt.
  std::chrono::nanoseconds spend(BootTime now, double units) {
    refill(now);
    left_ -= units;
    if (left_ >= 0) return {};
    return std::chrono::nanoseconds(static_cast<int64_t>(-left_ / per_second_ * 1e9));
  }

 private:
  void refill(BootTime now) {
    if (now > filled_)
      left_ = std::min(burst_, left_ + std::chrono::duration<double>(now - filled_).count() * per_second_);
    filled_ = std::max(filled_, now);
  }

  double per_second_;
  double burst_;
  double left_;
  BootTime filled_{};
};

}  // namespace volador::worker
