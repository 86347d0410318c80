#include "runtime/once_event.h"

#include <climits>

#include "runtime/futex.h"
#include "runtime/led_loop.h"

namespace volador {

thread_local constinit WakesTogether* WakesTogether::current_ = nullptr;

void WakesTogether::wake_all() {
  for (size_t i = 0; i < count_; ++i) futex_wake(*words_[i], INT_MAX);
  count_ = 0;
}

void OnceEvent::wake(bool sleepers) {
  LedLoop::interrupt_installed();
  if (!sleepers) return;
  WakesTogether* const together = WakesTogether::current_;
  if (together == nullptr) return futex_wake(state_, INT_MAX);
  if (together->count_ == together->words_.size()) together->wake_all();
  together->words_[together->count_++] = &state_;
}

bool OnceEvent::wait_until(const std::optional<std::chrono::steady_clock::time_point>& deadline) {
  for (;;) {
    uint32_t seen = state_.load(std::memory_order_acquire);
    if (seen == kHappened) return true;
    if (seen != kAwaited && !state_.compare_exchange_strong(seen, kAwaited, std::memory_order_acq_rel)) continue;
    if (!futex_wait(state_, kAwaited, deadline)) return has_happened();
  }
}

}  // namespace volador
