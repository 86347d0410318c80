#include "runtime/once_event.h"

#include <climits>

#include "runtime/futex.h"

namespace volador {

void OnceEvent::wake() { futex_wake(state_, INT_MAX); }

bool OnceEvent::wait_until(const std::optional<std::chrono::steady_clock::time_point>& deadline) {
  for (;;) {
    uint32_t seen = kNotYet;
    if (!state_.compare_exchange_strong(seen, kAwaited, std::memory_order_acq_rel) && seen == kHappened) return true;
    if (!futex_wait(state_, kAwaited, deadline)) return has_happened();
  }
}

}  // namespace volador
