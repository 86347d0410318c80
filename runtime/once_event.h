// One-shot event that threads can wait for. One word of memory; no system call unless a thread waits.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace volador {

// One-shot event. Thread safe.
class OnceEvent {
 public:
  bool has_happened() const { return state_.load(std::memory_order_acquire) == kHappened; }
  // Repeated: no effect. Earlier writes are visible to threads that see the event.
  void happen() {
    const uint32_t before = state_.exchange(kHappened, std::memory_order_acq_rel);
    if (before == kAwaited || before == kLed) wake(before == kAwaited);
  }
  // As has_happened(), for a thread that runs the loop (led_loop.h) until then: if another thread triggers the event,
  // the loop is interrupted.
  bool has_happened_to_leader() {
    uint32_t seen = kNotYet;
    return !state_.compare_exchange_strong(seen, kLed) && seen == kHappened;
  }
  // Waits until the event happened or the deadline. False: the deadline passed.
  bool wait_until(const std::optional<std::chrono::steady_clock::time_point>& deadline);

 private:
  // kLed: a thread runs the loop for it. kAwaited: threads are sleeping, possibly also a leading one.
  enum State : uint32_t { kNotYet, kLed, kAwaited, kHappened };
  void wake(bool sleepers);

  std::atomic<uint32_t> state_{kNotYet};
};

// Batches wake-ups: threads that wait for events triggered by this thread are woken together, at the end of the scope
// or once there are many, so that each finds all of its results and need not sleep again. Not nested.
class WakesTogether {
 public:
  WakesTogether() { current_ = this; }
  ~WakesTogether() {
    current_ = nullptr;
    wake_all();
  }
  WakesTogether(const WakesTogether&) = delete;
  WakesTogether& operator=(const WakesTogether&) = delete;

  // Wakes the batch of this thread; call before running code that may wait for one of these threads.
  static void wake_now() {
    if (current_ != nullptr) current_->wake_all();
  }

 private:
  friend class OnceEvent;
  void wake_all();

  static thread_local WakesTogether* current_;

  std::array<std::atomic<uint32_t>*, 8> words_{};  // Never dereferenced: the events may already be destroyed.
  size_t count_ = 0;
};

}  // namespace volador
