// Thread pool of a shared host: actors' turns run on few threads, and on more while some are blocked.
//
// A turn that runs longer than `patience` or reports that it blocks (blocking.h) occupies only its own thread: another
// thread replaces it, up to `threads_max`. Beyond that, turns wait for a thread and a warning is logged once a minute:
// longer chains of actors that wait for one another deadlock.
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

// Input of threads_to_add().
struct ThreadCounts {
  size_t base = 1;     // Target number of working threads, at least 1.
  size_t limit = 1;    // Maximum number of threads.
  size_t threads = 0;  // Total.
  size_t held_up = 0;  // Threads that block or run one turn for too long.
  size_t idle = 0;     // Idle threads.
  size_t turns = 0;    // Turns that wait for a thread.
};
// Returns the number of threads to add now.
size_t threads_to_add(const ThreadCounts& counts);

// A pool that grows while its threads are blocked. Thread safe.
class SharedThreads {
 public:
  struct Options {
    std::string name = "actors";  // Thread name; at most 11 characters are visible.
    size_t threads = 2;           // Working threads while none is blocked.
    size_t threads_max = 512;
    std::chrono::milliseconds patience{20};
    std::chrono::milliseconds idle{2000};  // A thread beyond `threads` ends after this idle time.
  };
  // Unit of work; a queued turn keeps it alive.
  class Runnable {
   public:
    virtual ~Runnable() = default;
    // `self` owns this object.
    virtual void run_turn(const std::shared_ptr<Runnable>& self, void* what) = 0;
  };

  SharedThreads(Options options, const Clock& clock);
  // Drops waiting turns and waits for running ones.
  ~SharedThreads();
  SharedThreads(const SharedThreads&) = delete;
  SharedThreads& operator=(const SharedThreads&) = delete;

  // Queues a turn. Any thread; turns start in order.
  void post(std::shared_ptr<Runnable> runnable, void* what);
  size_t threads() const;
  // Whether turns wait for a thread; long turns may yield.
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
  std::condition_variable work_;     // Idle threads wait on it.
  std::condition_variable watcher_;  // The watch thread waits on it.
  std::deque<Turn> turns_;
  std::atomic<size_t> turns_waiting_{0};
  std::vector<std::unique_ptr<Worker>> workers_;
  size_t idle_ = 0;
  size_t looking_ = 0;  // Threads that briefly poll for a turn; they need no wake-up.
  size_t waiting_ = 0;  // Threads that reported a wait.
  bool stopping_ = false;
  bool watcher_idle_ = true;
  std::optional<BootTime> said_full_;
  std::thread watch_thread_;
};

}  // namespace volador
