// Child processes of this process: watched by pidfd and reaped, including orphans.
//
// Processes that a host leaves behind (double forks, own sessions) are reparented to the nearest subreaper when their
// parent ends: to the host while it lives, then to this process. A child that was not started here and does not come
// from a pending fork is therefore an orphan of an ended host: sweep() kills it, repeatedly until none is left. Warm
// processes, which outlive the host that started them, are left alone.
// Children that existed before this object are ignored.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "runtime/clock.h"
#include "runtime/net/io_loop.h"
#include "runtime/result.h"

namespace volador::worker {

// How a process ended.
struct ExitStatus {
  int exit_code = 0;
  int signal = 0;  // 0: it exited.
};

// Table of watched child processes. Loop thread only, except the constructor.
class Children {
 public:
  // `oldest_fork_in_flight`: when the oldest unanswered fork request was sent; nullopt: none. `is_warm`: whether sweep()
  // leaves a child alone; empty: none.
  Children(net::IoLoop& loop, std::function<std::optional<BootTime>()> oldest_fork_in_flight,
           std::function<bool(pid_t)> is_warm = {});
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  // Makes this process a subreaper for orphans.
  static void become_subreaper();

  // on_exit runs once, when the child has ended, its process group was killed and it was reaped. Not after ~Children.
  // Watching a child again replaces the function. kNotFound: no such child.
  [[nodiscard]] Result<void> watch(pid_t pid, std::function<void(ExitStatus)> on_exit);
  // Signals the process, and its group if it leads one. Unknown and ended processes: no effect.
  void signal(pid_t pid, int signal);
  // Delays the reaping and on_exit of a watched child until it is released, so that its pid stays its own. Counted;
  // unknown children: no effect.
  void hold(pid_t pid);
  void release(pid_t pid);
  // Whether a watched child has ended and its on_exit is pending.
  bool has_ended(pid_t pid) const;
  size_t watched() const { return children_.size(); }
  // Watched children that lead process groups.
  std::set<pid_t> pids() const;

  // Kills and reaps orphans; repeats while there are any.
  void sweep();
  // Kills every child, waits up to `patience` (blocks), sweeps the rest. For the end of this process.
  void kill_all(std::chrono::milliseconds patience);

 private:
  struct Child;
  void reap(const std::shared_ptr<Child>& child);
  std::vector<pid_t> own_children() const;
  void sweep_later(std::chrono::milliseconds delay);

  net::IoLoop& loop_;
  std::function<std::optional<BootTime>()> oldest_fork_in_flight_;
  std::function<bool(pid_t)> is_warm_;
  const std::set<pid_t> older_;  // Children that existed before.
  std::map<pid_t, std::shared_ptr<Child>> children_;
  std::map<pid_t, BootTime> strangers_;  // Unwatched children, with the time they were first seen.
  net::IoLoop::TimerId sweep_timer_ = 0;
};

// Returns all children of this process, of any thread. Exposed for tests.
[[nodiscard]] std::vector<pid_t> children_of_this_process();

// Kills all other processes with `name`=`value` in their initial environment; waits until they are gone, at most
// `patience`. For processes left by a killed worker of this node. Returns their number.
size_t kill_by_environment(std::string_view name, std::string_view value, std::chrono::milliseconds patience);

}  // namespace volador::worker
