// Events of other threads and of signal handlers, for a loop that also waits for the time.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace volador::tune {

// Wakes a waiting thread; notify() may be called from a signal handler.
class Wakeup {
 public:
  Wakeup();
  ~Wakeup();
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  void notify() noexcept;
  // Returns at a notification since the last wait, or when `timeout` has passed (no value: never).
  void wait(std::optional<std::chrono::nanoseconds> timeout);

 private:
  int fd_;
};

// Many threads push, one takes.
template <class T>
class EventQueue {
 public:
  void push(T event) {
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      events_.push_back(std::move(event));
    }
    wakeup_.notify();
  }
  // Everything pushed so far; waits for the first one, for a notification or for the time.
  std::vector<T> take(std::optional<std::chrono::nanoseconds> timeout) {
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      if (!events_.empty()) return std::exchange(events_, {});
    }
    wakeup_.wait(timeout);
    const std::lock_guard<std::mutex> hold(mutex_);
    return std::exchange(events_, {});
  }
  Wakeup& wakeup() { return wakeup_; }

 private:
  std::mutex mutex_;
  std::vector<T> events_;
  Wakeup wakeup_;
};

// Counts SIGINT and SIGTERM and wakes the loop, as long as it lives; one at a time in a process. From the third signal on the process
// ends as it would have without.
class InterruptCounter {
 public:
  explicit InterruptCounter(Wakeup& wakeup);
  ~InterruptCounter();
  InterruptCounter(const InterruptCounter&) = delete;
  InterruptCounter& operator=(const InterruptCounter&) = delete;

  int count() const;

 private:
  struct Saved;
  std::unique_ptr<Saved> saved_;
};

}  // namespace volador::tune
