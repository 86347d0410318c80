#include "runtime/once_event.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace volador {

static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free, "the kernel looks at the word");

void OnceEvent::wake() { ::syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0); }

bool OnceEvent::wait_until(const std::optional<std::chrono::steady_clock::time_point>& deadline) {
  timespec until{};
  if (deadline) {
    const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline->time_since_epoch()).count();
    if (since <= 0) return has_happened();
    until = {.tv_sec = since / 1'000'000'000, .tv_nsec = since % 1'000'000'000};
  }
  for (;;) {
    uint32_t seen = kNotYet;
    if (!state_.compare_exchange_strong(seen, kAwaited, std::memory_order_acq_rel) && seen == kHappened) return true;
    // An absolute time of CLOCK_MONOTONIC, which is steady_clock's.
    const int64_t woken = ::syscall(SYS_futex, &state_, FUTEX_WAIT_BITSET_PRIVATE, kAwaited, deadline ? &until : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
    if (woken != 0 && errno == ETIMEDOUT) return has_happened();
  }
}

}  // namespace volador
