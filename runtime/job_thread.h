// Runs jobs in order on a separate thread, for work that may block on a disk or network file system for a long time.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "runtime/unique_function.h"

namespace volador {

// A thread with a queue of jobs. Thread safe.
class JobThread {
 public:
  using Then = UniqueFunction<void()>;
  // The return value, if any, is passed to `deliver`.
  using Job = UniqueFunction<Then()>;

  // The thread starts with the first job. `name`: thread name, at most 15 characters. `deliver` runs on that thread and
  // must not block.
  explicit JobThread(std::string name, std::function<void(Then)> deliver = {});
  // Runs queued jobs for at most kEndPatience; nothing is delivered any more. A hanging job and the jobs behind it are
  // detached: jobs must own what they use.
  ~JobThread();
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;

  void post(Job job);
  // Number of unfinished jobs.
  size_t size() const;
  // Waits until there are no jobs. False: `patience` has passed.
  bool wait_until_idle(std::chrono::milliseconds patience) const;

  static constexpr std::chrono::milliseconds kEndPatience{2000};

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace volador
