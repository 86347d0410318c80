// Jobs on a thread of their own, in order: what a disk or a file system of another machine may hold up for seconds or for ever, and what
// nothing else is to wait for.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "runtime/unique_function.h"

namespace volador {

// Thread safe.
class JobThread {
 public:
  using Then = UniqueFunction<void()>;
  // What it returns, if anything, goes to `deliver`.
  using Job = UniqueFunction<Then()>;

  // The thread begins with the first job. `name`: of the thread, at most 15 characters. `deliver`: on the thread; must not block.
  explicit JobThread(std::string name, std::function<void(Then)> deliver = {});
  // Runs what waits, for at most kEndPatience; nothing is delivered any more. A job that hangs is left alone, with those behind it: jobs
  // own what they use.
  ~JobThread();
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;

  void post(Job job);
  // Jobs that have not ended.
  size_t size() const;
  // Until there are none. False: `patience` has passed first.
  bool wait_until_idle(std::chrono::milliseconds patience) const;

  static constexpr std::chrono::milliseconds kEndPatience{2000};

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace volador
