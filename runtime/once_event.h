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
    if (state_.exchange(kHappened, std::memory_order_acq_rel) == kAwaited) wake();
  }
  // Without a deadline: until it happened. False: the deadline came first.
  bool wait_until(const std::optional<std::chrono::steady_clock::time_point>& deadline);

 private:
  enum State : uint32_t { kNotYet, kAwaited, kHappened };
  void wake();

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
