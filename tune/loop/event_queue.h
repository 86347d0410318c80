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
  // As push(), for what may be left out: beyond so many bytes of it that wait, it is counted alone.
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
  // Since the last call.
  int64_t take_left_out() {
    const std::lock_guard<std::mutex> hold(mutex_);
    return std::exchange(left_out_, 0);
  }
  // Everything pushed so far; waits for the first one, for a notification or for the time.
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
  size_t offered_bytes_ = 0;  // Among them.
  int64_t left_out_ = 0;
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
