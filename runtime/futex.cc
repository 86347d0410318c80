#include "runtime/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace volador {

static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free,
              "the kernel looks at the word");

bool futex_wait(std::atomic<uint32_t>& word, uint32_t seen,
                const std::optional<std::chrono::steady_clock::time_point>& deadline) {
  timespec until{};
  if (deadline) {
    const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline->time_since_epoch()).count();
    if (since <= 0) return false;
    until = {.tv_sec = since / 1'000'000'000, .tv_nsec = since % 1'000'000'000};
  }
  // Absolute time of CLOCK_MONOTONIC, as steady_clock.
  const int64_t woken = ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, seen, deadline ? &until : nullptr,
                                  nullptr, FUTEX_BITSET_MATCH_ANY);
  return woken == 0 || errno != ETIMEDOUT;
}

void futex_wake(std::atomic<uint32_t>& word, int count) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

}  // namespace volador
