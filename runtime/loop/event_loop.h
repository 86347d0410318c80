// Run-to-completion loops on CAF: everything posted to one loop runs one after another, never at the same time.
// The only door to CAF (0.17.6, libcaf_core): the messages carry functions, are never serialised and never leave the process.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace volador {

// The scheduler threads that loops of one process share; they start with the first use. No fork after that. Destroy it after all of its loops.
class LoopSystem {
 public:
  // Threads: at least 1.
  explicit LoopSystem(int threads = 2);
  ~LoopSystem();
  LoopSystem(const LoopSystem&) = delete;
  LoopSystem& operator=(const LoopSystem&) = delete;

 private:
  friend class EventLoop;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class EventLoop {
 public:
  enum class Thread : uint8_t {
    kShared,  // On the system's threads: functions must not block or compute for long.
    kOwn,     // A thread of its own: functions may block.
  };

  // What an exception that leaves a posted function does, besides an error in the log.
  enum class OnThrow : uint8_t {
    kContinue,  // The loop runs the next function.
    kAbort,     // The process ends: a state that half an event has changed must not be used any more.
  };

  EventLoop(LoopSystem& system, std::string name, Thread thread = Thread::kShared, OnThrow on_throw = OnThrow::kContinue);
  // As stop().
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Thread safe; the functions of one posting thread run in the order of their posting. After stop() they are dropped.
  void post(std::function<void()> function);
  // Not before `delay` has passed; cannot be taken back, so let the function check whether it is still wanted.
  void post_after(std::chrono::nanoseconds delay, std::function<void()> function);
  // Refuses new functions, waits until the running one has returned, drops the rest. Not from within the loop. Repeated calls do nothing.
  void stop();
  // Whether the caller runs inside this loop.
  bool is_current() const;
  // A function that does other work while nothing else waits: `interrupt` is called after each post() and by stop(), on their threads, from
  // the first post on that follows this. Before other threads know the loop.
  void set_interrupt(std::function<void()> interrupt);
  // Whether a function of post() waits, or stop() does, for the end of the one that runs.
  bool is_awaited() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace volador
