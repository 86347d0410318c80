// Returns a task's CPUs while the task waits, so that tasks that wait for their own tasks cannot deadlock the cluster.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "runtime/actor/blocking.h"

namespace volador::internal {

// Shorter waits are not worth a message.
inline constexpr std::chrono::milliseconds kLendAfter{10};

// Lives on the stack of the thread that runs a task.
class TaskOnThread {
 public:
  TaskOnThread();
  ~TaskOnThread();
  TaskOnThread(const TaskOnThread&) = delete;
  TaskOnThread& operator=(const TaskOnThread&) = delete;
  static bool is_here();
};

// Returns the CPUs of this process's actor during its lifetime.
class LentCpus {
 public:
  LentCpus();
  ~LentCpus();
  LentCpus(const LentCpus&) = delete;
  LentCpus& operator=(const LentCpus&) = delete;
};

// Runs a wait that may be long. `wait(until)` waits until then, or without limit, and returns whether the awaited event
// happened. It must hold no lock that is needed while CPUs are returned and acquired.
template <class Wait>
bool lend_while_waiting(const std::optional<std::chrono::steady_clock::time_point>& deadline, const Wait& wait,
                        Blocking::LoopLeads loop = Blocking::LoopLeads::kNow) {
  const Blocking blocking(loop);
  if (!TaskOnThread::is_here()) return wait(deadline);
  const auto soon = std::chrono::steady_clock::now() + kLendAfter;
  if (deadline && *deadline <= soon) return wait(deadline);
  if (wait(std::optional(soon))) return true;
  const LentCpus lent;
  return wait(deadline);
}

// Waits on `changed` until `reached()`, which must stay true; false: the deadline passed.
template <class Reached>
bool wait_lending(std::condition_variable& changed, std::unique_lock<std::mutex>& hold,
                  const std::optional<std::chrono::steady_clock::time_point>& deadline, const Reached& reached) {
  if (reached()) return true;
  std::mutex& mutex = *hold.mutex();
  hold.unlock();
  const bool there =
      lend_while_waiting(deadline, [&](const std::optional<std::chrono::steady_clock::time_point>& until) {
        std::unique_lock<std::mutex> own(mutex);
        if (until) return changed.wait_until(own, *until, reached);
        changed.wait(own, reached);
        return true;
      });
  hold.lock();
  return there;
}

}  // namespace volador::internal
