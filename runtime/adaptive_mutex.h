// Spinning for short waits between threads, where sleeping and waking would cost more than the wait.
#pragma once

#include <atomic>
#include <cstdint>

namespace volador {

// Spins for under a microsecond, less than a wake-up takes. Returns true as soon as `reached()`.
template <class Reached>
bool look_for_a_moment(const Reached& reached) {
  constexpr int kLooks = 48;
  for (int look = 0; look < kLooks; ++look) {
    if (reached()) return true;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb");
#endif
  }
  return false;
}

// A mutex for short critical sections: one word, and no system call unless a thread has to sleep.
class AdaptiveMutex {
 public:
  AdaptiveMutex() = default;
  AdaptiveMutex(const AdaptiveMutex&) = delete;
  AdaptiveMutex& operator=(const AdaptiveMutex&) = delete;

  void lock() {
    if (!try_lock()) lock_slowly();
  }
  bool try_lock() {
    uint32_t free = kFree;
    return state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) wake_one();
  }

 private:
  enum State : uint32_t { kFree, kHeld, kAwaited };  // kAwaited: held, and threads may be sleeping.
  void lock_slowly();
  void wake_one();

  std::atomic<uint32_t> state_{kFree};
};

}  // namespace volador
