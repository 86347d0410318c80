// Something that happens once, and threads that wait for it. A word of memory; where nobody waits no system call.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace volador {

// Thread safe.
class OnceEvent {
 public:
  bool has_happened() const { return state_.load(std::memory_order_acquire) == kHappened; }
  // Repeated: no effect. What was written before is seen by who finds it happened.
  void happen() {
    if (state_.exchange(kHappened, std::memory_order_acq_rel) == kAwaited) wake();
  }
  // Without a deadline: until it happened. False: the deadline came first.
  bool wait_until(const std::optional<std::chrono::steady_clock::time_point>& deadline);

 private:
  enum State : uint32_t { kNotYet, kAwaited, kHappened };
  void wake();

  std::atomic<uint32_t> state_{kNotYet};
};

}  // namespace volador
