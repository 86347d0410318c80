// The threads of a shared host: turns of its actors run on few of them, and on more while some are held up.
//
// A turn that computes or waits for longer than `patience`, or says that it waits (blocking.h), costs its own thread
// only: another one takes its place, up to `threads_max`. Beyond that turns wait for a thread, which the log says once
// a minute: actors that wait for one another in a longer chain do not go on.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/clock.h"

namespace volador {

// How many threads there are, decided. Pure.
struct ThreadCounts {
  size_t base = 1;     // Wanted at work, at least 1.
  size_t limit = 1;    // Threads in all.
  size_t threads = 0;  // In all.
  size_t held_up = 0;  // Of them: that wait, or run one turn for too long.
  size_t idle = 0;     // Of them.
  size_t turns = 0;    // That wait for a thread.
};
// So many more are wanted now.
size_t threads_to_add(const ThreadCounts& counts);

class SharedThreads {
 public:
  struct Options {
    std::string name = "actors";  // Of the threads; at most 11 characters are seen.
    size_t threads = 2;           // At work at once, where none is held up.
    size_t threads_max = 512;
    std::chrono::milliseconds patience{20};
    std::chrono::milliseconds idle{2000};  // A thread beyond `threads` ends after it.
  };
  // What is run; a turn keeps it alive.
  class Runnable {
   public:
    virtual ~Runnable() = default;
    // `self` holds this.
    virtual void run_turn(const std::shared_ptr<Runnable>& self, void* what) = 0;
  };

  SharedThreads(Options options, const Clock& clock);
  // Drops the turns that wait, waits for those that run.
  ~SharedThreads();
  SharedThreads(const SharedThreads&) = delete;
  SharedThreads& operator=(const SharedThreads&) = delete;

  // Any thread; turns start in the order in which they came.
  void post(std::shared_ptr<Runnable> runnable, void* what);
  size_t threads() const;
  // Whether turns wait for a thread: who runs a long one may give way.
  bool pressed() const { return turns_waiting_.load(std::memory_order_relaxed) > 0; }

 private:
  struct Turn {
    std::shared_ptr<Runnable> runnable;
    void* what = nullptr;
  };
  struct Worker;
  using Lock = std::unique_lock<std::mutex>;

  void work(Worker& worker);
  void watch();
  std::optional<Turn> next_turn(Lock& lock, Worker& worker);
  ThreadCounts counts(BootTime now) const;
  void grow(size_t count);
  void collect_ended();
  void say_full(BootTime now);

  const Options options_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable work_;     // For idle threads.
  std::condition_variable watcher_;  // For the one that looks for held-up threads.
  std::deque<Turn> turns_;
  std::atomic<size_t> turns_waiting_{0};
  std::vector<std::unique_ptr<Worker>> workers_;
  size_t idle_ = 0;
  size_t looking_ = 0;  // Threads that look for a turn a moment longer; nobody has to wake them.
  size_t waiting_ = 0;  // Threads that said that they wait.
  bool stopping_ = false;
  bool watcher_idle_ = true;
  std::optional<BootTime> said_full_;
  std::thread watch_thread_;
};

}  // namespace volador
