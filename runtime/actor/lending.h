// Waiting inside a task: its CPUs are others' meanwhile, so that tasks which wait for tasks of their own never fill a cluster.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "runtime/actor/blocking.h"

namespace volador::internal {

// Shorter waits are not worth a message.
inline constexpr std::chrono::milliseconds kLendAfter{10};

// Stands on the stack of the thread that runs a task.
class TaskOnThread {
 public:
  TaskOnThread();
  ~TaskOnThread();
  TaskOnThread(const TaskOnThread&) = delete;
  TaskOnThread& operator=(const TaskOnThread&) = delete;
  static bool is_here();
};

// While it lives, the CPUs of the actor in whose process it stands are lent.
class LentCpus {
 public:
  LentCpus();
  ~LentCpus();
  LentCpus(const LentCpus&) = delete;
  LentCpus& operator=(const LentCpus&) = delete;
};

// Waits on `changed` until `reached()`, which stays true once it is; false: the deadline came first. The lock is let go while CPUs
// are lent and taken back.
template <class Reached>
bool wait_lending(std::condition_variable& changed, std::unique_lock<std::mutex>& hold,
                  const std::optional<std::chrono::steady_clock::time_point>& deadline, const Reached& reached) {
  const auto wait = [&] {
    if (deadline) return changed.wait_until(hold, *deadline, reached);
    changed.wait(hold, reached);
    return true;
  };
  if (reached()) return true;
  const Blocking blocking;
  if (!TaskOnThread::is_here()) return wait();
  const auto soon = std::chrono::steady_clock::now() + kLendAfter;
  if (deadline && *deadline <= soon) return wait();
  if (changed.wait_until(hold, soon, reached)) return true;
  hold.unlock();
  bool there = false;
  {
    const LentCpus lent;
    hold.lock();
    there = wait();
    hold.unlock();
  }
  hold.lock();
  return there;
}

}  // namespace volador::internal
