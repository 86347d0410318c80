// Short waits of threads that run beside each other: to sleep and be woken costs more than what they wait for.
#pragma once

#include <mutex>

namespace volador {

// A moment in which another thread of this process may bring what this one would sleep for: under a microsecond, less
// than to be woken. True as soon as `reached()`.
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

// A mutex that is held for moments by threads of different cores.
class AdaptiveMutex {
 public:
  void lock() {
    if (!look_for_a_moment([this] { return mutex_.try_lock(); })) mutex_.lock();
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

}  // namespace volador
