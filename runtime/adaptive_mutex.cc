#include "runtime/adaptive_mutex.h"

#include "runtime/futex.h"

namespace volador {

void AdaptiveMutex::lock_slowly() {
  if (look_for_a_moment([this] { return state_.load(std::memory_order_relaxed) == kFree && try_lock(); })) return;
  while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree) futex_wait(state_, kAwaited);
}

void AdaptiveMutex::wake_one() { futex_wake(state_, 1); }

}  // namespace volador
