// Something that happens once, and threads that wait for it. A word of memory; where nobody waits no system call.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace volador {

// Thread safe.
class OnceEvent {
 public:
  bool has_happened() const { return state_.load(std::memory_order_acquire) == kHappened; }
  // Repeated: no effect. What was written before is seen by who finds it happened.
  void happen() {
    const uint32_t before = state_.exchange(kHappened, std::memory_order_acq_rel);
    if (before == kAwaited || before == kLed) wake(before == kAwaited);
  }
  // As has_happened(), of a thread that runs the loop (led_loop.h) until then: if another thread makes it happen, the loop is interrupted.
  bool has_happened_to_leader() {
    uint32_t seen = kNotYet;
    return !state_.compare_exchange_strong(seen, kLed) && seen == kHappened;
  }
  // Without a deadline: until it happened. False: the deadline came first.
  bool wait_until(const std::optional<std::chrono::steady_clock::time_point>& deadline);

 private:
  enum State : uint32_t { kNotYet, kLed, kAwaited, kHappened };  // Led: a thread runs the loop for it. Awaited: threads sleep, perhaps also that.
  void wake(bool sleepers);

  std::atomic<uint32_t> state_{kNotYet};
};

// While one lives, threads that wait for what this thread makes happen are woken together, at its end or once there are many: each
// then finds all of it there, and does not go back to sleep between one and the next. Not nested.
class WakesTogether {
 public:
  WakesTogether() { current_ = this; }
  ~WakesTogether() {
    current_ = nullptr;
    wake_all();
  }
  WakesTogether(const WakesTogether&) = delete;
  WakesTogether& operator=(const WakesTogether&) = delete;

  // Of this thread, before it runs what may wait for one of those that it is to wake.
  static void wake_now() {
    if (current_ != nullptr) current_->wake_all();
  }

 private:
  friend class OnceEvent;
  void wake_all();

  static thread_local WakesTogether* current_;

  std::array<std::atomic<uint32_t>*, 8> words_{};  // Compared with nothing and not read: they may be gone already.
  size_t count_ = 0;
};

}  // namespace volador
