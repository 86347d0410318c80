// Run-to-completion loops on CAF: functions posted to one loop run one after another. The only use of CAF (0.17.6,
// libcaf_core): messages carry functions, are never serialized and never leave the process.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace volador {

// Scheduler threads shared by the loops of a process; started on first use. No fork after that. Destroy it after all of
// its loops.
class LoopSystem {
 public:
  // `threads`: at least 1.
  explicit LoopSystem(int threads = 2);
  ~LoopSystem();
  LoopSystem(const LoopSystem&) = delete;
  LoopSystem& operator=(const LoopSystem&) = delete;

 private:
  friend class EventLoop;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Runs posted functions one after another.
class EventLoop {
 public:
  enum class Thread : uint8_t {
    kShared,  // On the system's threads: functions must not block or compute for long.
    kOwn,     // On its own thread: functions may block.
  };

  // Reaction to an exception from a posted function, in addition to an error in the log.
  enum class OnThrow : uint8_t {
    kContinue,  // The loop continues with the next function.
    kAbort,     // The process aborts: a partially applied event leaves invalid state.
  };

  EventLoop(LoopSystem& system, std::string name, Thread thread = Thread::kShared,
            OnThrow on_throw = OnThrow::kContinue);
  // As stop().
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Thread safe; functions posted by one thread run in order. Dropped after stop().
  void post(std::function<void()> function);
  // Runs not before `delay`; cannot be cancelled, so the function should check whether it is still needed.
  void post_after(std::chrono::nanoseconds delay, std::function<void()> function);
  // Rejects new functions, waits for the running one, drops the rest. Not from within the loop. Repeatable.
  void stop();
  // Whether the caller runs inside this loop.
  bool is_current() const;
  // For a function that does other work while no function is queued: `interrupt` is called after each post() and by
  // stop(), on their threads, starting with the first later post. Call before other threads use the loop.
  void set_interrupt(std::function<void()> interrupt);
  // Whether a posted function or stop() waits for the running function.
  bool is_awaited() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace volador
