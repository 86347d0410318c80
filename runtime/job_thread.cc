#include "runtime/job_thread.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace volador {

struct JobThread::State {
  State(std::string thread_name, std::function<void(Then)> to) : name(std::move(thread_name)), deliver(std::move(to)) {}

  void run();
  bool is_idle() const { return !runs_one && waiting.empty(); }

  const std::string name;
  const std::function<void(Then)> deliver;  // Valid until `closed`.
  std::mutex mutex;
  std::condition_variable wake, idle;
  std::deque<Job> waiting;
  bool runs_one = false;
  bool started = false;
  bool closed = false;
  bool given_up = false;
};

// The lock is released while a job runs or is destroyed.
void JobThread::State::run() {
  pthread_setname_np(pthread_self(), name.c_str());
  std::unique_lock lock(mutex);
  while (true) {
    wake.wait(lock, [this] { return closed || !waiting.empty(); });
    if (waiting.empty() || given_up) break;
    Job job = std::move(waiting.front());
    waiting.pop_front();
    runs_one = true;
    lock.unlock();
    Then then = job();
    job = {};
    lock.lock();
    runs_one = false;
    if (then && !closed) deliver(std::move(then));
    if (is_idle()) idle.notify_all();
  }
  const auto dropped = std::exchange(waiting, {});
  lock.unlock();  // Before the jobs are destroyed.
}

JobThread::JobThread(std::string name, std::function<void(Then)> deliver)
    : state_(std::make_shared<State>(std::move(name), std::move(deliver))) {}

JobThread::~JobThread() {
  std::unique_lock lock(state_->mutex);
  state_->closed = true;
  state_->wake.notify_all();
  state_->given_up = !state_->idle.wait_for(lock, kEndPatience, [this] { return state_->is_idle(); });
}

void JobThread::post(Job job) {
  const std::lock_guard lock(state_->mutex);
  state_->waiting.push_back(std::move(job));
  state_->wake.notify_one();
  if (std::exchange(state_->started, true)) return;
  std::thread([state = state_] { state->run(); }).detach();
}

size_t JobThread::size() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waiting.size() + (state_->runs_one ? 1 : 0);
}

bool JobThread::wait_until_idle(std::chrono::milliseconds patience) const {
  std::unique_lock lock(state_->mutex);
  return state_->idle.wait_for(lock, patience, [this] { return state_->is_idle(); });
}

}  // namespace volador
