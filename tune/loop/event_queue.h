// Queue of events from other threads and signal handlers, for a loop that also waits for a deadline.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace volador::tune {

// Wakes a waiting thread; notify() is async-signal-safe.
class Wakeup {
 public:
  Wakeup();
  ~Wakeup();
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  void notify() noexcept;
  // Returns once notified since the last wait, or when `timeout` has passed (no value: waits without limit).
  void wait(std::optional<std::chrono::nanoseconds> timeout);

 private:
  int fd_;
};

// Multi-producer, single-consumer queue.
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
  // As push(), for events that may be dropped: if the queued droppable events would exceed `bytes_max`, the event is
  // only counted.
  void offer(T event, size_t bytes, size_t bytes_max) {
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      if (offered_bytes_ + bytes > bytes_max) {
        ++left_out_;
        return;
      }
      offered_bytes_ += bytes;
      events_.push_back(std::move(event));
    }
    wakeup_.notify();
  }
  // Returns the number of events dropped since the last call.
  int64_t take_left_out() {
    const std::lock_guard<std::mutex> hold(mutex_);
    return std::exchange(left_out_, 0);
  }
  // Returns all queued events; waits for the first one, a notification or the timeout.
  std::vector<T> take(std::optional<std::chrono::nanoseconds> timeout) {
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      if (!events_.empty()) return take_all();
    }
    wakeup_.wait(timeout);
    const std::lock_guard<std::mutex> hold(mutex_);
    return take_all();
  }
  Wakeup& wakeup() { return wakeup_; }

 private:
  std::vector<T> take_all() {
    offered_bytes_ = 0;
    return std::exchange(events_, {});
  }

  std::mutex mutex_;
  std::vector<T> events_;
  size_t offered_bytes_ = 0;  // Bytes of the queued droppable events.
  int64_t left_out_ = 0;
  Wakeup wakeup_;
};

// Counts SIGINT and SIGTERM and wakes the loop during its lifetime; at most one instance per process. From the third
// signal on, the process terminates as it would by default.
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
