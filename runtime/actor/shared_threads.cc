#include "runtime/actor/shared_threads.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <utility>

#include "runtime/actor/blocking.h"
#include "runtime/adaptive_mutex.h"
#include "runtime/log.h"
#include "runtime/net/held_writes.h"

namespace volador {

size_t threads_to_add(const ThreadCounts& counts) {
  const size_t at_work = counts.threads - std::min(counts.threads, counts.held_up);
  if (counts.turns <= counts.idle || at_work >= counts.base || counts.threads >= counts.limit) return 0;
  return std::min({counts.base - at_work, counts.turns - counts.idle, counts.limit - counts.threads});
}

// A thread of the pool.
struct SharedThreads::Worker final : internal::ThreadOwner {
  explicit Worker(SharedThreads& of) : pool(of) {}

  // Waits may be nested; only the outermost counts.
  void on_blocked() override {
    if (++depth > 1) return;
    const Lock lock(pool.mutex_);
    waits = true;
    ++pool.waiting_;
    if (!pool.turns_.empty()) pool.grow(threads_to_add(pool.counts(pool.clock_.now())));
  }
  void on_unblocked() override {
    if (--depth > 0) return;
    const Lock lock(pool.mutex_);
    waits = false;
    --pool.waiting_;
    since = pool.clock_.now();
  }

  SharedThreads& pool;
  int depth = 0;  // Used only by its own thread.
  // Guarded by the pool's mutex.
  bool busy = false;
  bool waits = false;
  bool ended = false;
  BootTime since{};  // Start of the current turn.
  std::thread thread;
};

SharedThreads::SharedThreads(Options options, const Clock& clock) : options_(std::move(options)), clock_(clock) {
  watch_thread_ = std::thread([this] { watch(); });
}

SharedThreads::~SharedThreads() {
  std::deque<Turn> dropped;
  {
    const Lock lock(mutex_);
    stopping_ = true;
    dropped.swap(turns_);
    turns_waiting_ = 0;
  }
  dropped.clear();
  work_.notify_all();
  watcher_.notify_all();
  watch_thread_.join();
  for (const auto& worker : workers_) worker->thread.join();  // No thread is added any more.
}

void SharedThreads::post(std::shared_ptr<Runnable> runnable, void* what) {
  bool wake = false;
  bool look = false;
  {
    const Lock lock(mutex_);
    if (stopping_) return;
    turns_.push_back({std::move(runnable), what});
    turns_waiting_.store(turns_.size(), std::memory_order_relaxed);
    if (turns_.size() <= idle_ + looking_) {
      wake = turns_.size() > looking_;
    } else {
      wake = idle_ > 0;
      if (workers_.size() < options_.threads) {
        grow(1);
      } else if (waiting_ > 0) {
        grow(threads_to_add(counts(clock_.now())));
      }
      look = std::exchange(watcher_idle_, false);
    }
  }
  if (wake) work_.notify_one();
  if (look) watcher_.notify_one();
}

size_t SharedThreads::threads() const {
  const Lock lock(mutex_);
  return static_cast<size_t>(
      std::count_if(workers_.begin(), workers_.end(), [](const auto& worker) { return !worker->ended; }));
}

ThreadCounts SharedThreads::counts(BootTime now) const {
  ThreadCounts counts{
      .base = options_.threads, .limit = options_.threads_max, .idle = idle_ + looking_, .turns = turns_.size()};
  for (const auto& worker : workers_) {
    if (worker->ended) continue;
    ++counts.threads;
    if (worker->waits || (worker->busy && now - worker->since >= options_.patience)) ++counts.held_up;
  }
  return counts;
}

// Call under the mutex.
void SharedThreads::grow(size_t count) {
  for (; count > 0 && !stopping_; --count) {
    workers_.push_back(std::make_unique<Worker>(*this));
    Worker* made = workers_.back().get();
    try {
      made->thread = std::thread([this, made] { work(*made); });
    } catch (const std::system_error& e) {
      workers_.pop_back();
      return log::warn("host", "a shared host cannot start another thread; its calls wait",
                       {{"threads", workers_.size()}, {"error", e.what()}});
    }
    pthread_setname_np(made->thread.native_handle(), options_.name.substr(0, 15).c_str());
  }
}

std::optional<SharedThreads::Turn> SharedThreads::next_turn(Lock& lock, Worker& worker) {
  worker.busy = false;
  if (turns_.empty() && !stopping_) {
    ++looking_;
    lock.unlock();
    net::write_held();
    look_for_a_moment([this] { return turns_waiting_.load(std::memory_order_relaxed) > 0; });
    lock.lock();
    --looking_;
  }
  while (turns_.empty() && !stopping_) {
    ++idle_;
    const bool woken = work_.wait_for(lock, options_.idle, [this] { return !turns_.empty() || stopping_; });
    --idle_;
    if (woken) continue;
    const size_t all = counts(clock_.now()).threads;
    if (all > options_.threads) return std::nullopt;
    // A base thread: sleeps until there is work.
    ++idle_;
    work_.wait(lock, [this] { return !turns_.empty() || stopping_; });
    --idle_;
  }
  if (stopping_) return std::nullopt;
  Turn turn = std::move(turns_.front());
  turns_.pop_front();
  turns_waiting_.store(turns_.size(), std::memory_order_relaxed);
  worker.busy = true;
  worker.since = clock_.now();
  return turn;
}

void SharedThreads::work(Worker& worker) {
  internal::thread_owner = &worker;
  const net::AnswersInARow in_a_row;
  Lock lock(mutex_);
  while (auto turn = next_turn(lock, worker)) {
    lock.unlock();
    turn->runnable->run_turn(turn->runnable, turn->what);
    turn.reset();  // It may hold the last reference to the actor.
    lock.lock();
  }
  worker.ended = true;
  watcher_.notify_one();
}

// Call under the mutex. Joining ended threads does not block.
void SharedThreads::collect_ended() {
  std::erase_if(workers_, [](const std::unique_ptr<Worker>& worker) {
    if (worker->ended && !worker->busy) worker->thread.join();
    return worker->ended;
  });
}

// Checks the threads only while turns wait and none is idle.
void SharedThreads::watch() {
  Lock lock(mutex_);
  while (!stopping_) {
    collect_ended();
    if (turns_.size() <= idle_ + looking_) {
      watcher_idle_ = true;
      watcher_.wait(lock, [this] {
        return stopping_ || !watcher_idle_ ||
               std::any_of(workers_.begin(), workers_.end(), [](const auto& w) { return w->ended; });
      });
      continue;
    }
    watcher_.wait_for(lock, options_.patience / 2);
    const BootTime now = clock_.now();
    const ThreadCounts seen = counts(now);
    grow(threads_to_add(seen));
    if (seen.threads >= seen.limit && seen.held_up >= seen.limit && seen.turns > 0) say_full(now);
  }
}

void SharedThreads::say_full(BootTime now) {
  if (said_full_ && now - *said_full_ < std::chrono::minutes(1)) return;
  said_full_ = now;
  log::warn("host",
            "every thread of this shared host is held up, calls wait: let methods use then() instead of get(), or give "
            "actors that wait process isolation",
            {{"threads", options_.threads_max}, {"waiting", turns_.size()}});
}

}  // namespace volador
