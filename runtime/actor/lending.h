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

// A wait that may be long: `wait(until)` waits until then, without an end where there is none, and returns whether what it waits for is there.
// It holds no lock that others need while CPUs are lent and taken back.
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

// Waits on `changed` until `reached()`, which stays true once it is; false: the deadline came first.
template <class Reached>
bool wait_lending(std::condition_variable& changed, std::unique_lock<std::mutex>& hold,
                  const std::optional<std::chrono::steady_clock::time_point>& deadline, const Reached& reached) {
  if (reached()) return true;
  std::mutex& mutex = *hold.mutex();
  hold.unlock();
  const bool there = lend_while_waiting(deadline, [&](const std::optional<std::chrono::steady_clock::time_point>& until) {
    std::unique_lock<std::mutex> own(mutex);
    if (until) return changed.wait_until(own, *until, reached);
    changed.wait(own, reached);
    return true;
  });
  hold.lock();
  return there;
}

}  // namespace volador::internal
