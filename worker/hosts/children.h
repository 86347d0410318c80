// The processes below this one: watched by pidfd, reaped, and no one forgotten.
//
// What a host leaves behind (double forks, sessions of their own) is handed to the nearest subreaper when its parent
// ends: to the host while it lives, then to this process. So a child that nobody here started and that no fork in
// flight explains is an orphan of an ended host: sweep() kills it, again and again until none is left. Children that
// this process had before are nobody's business here.
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

struct ExitStatus {
  int exit_code = 0;
  int signal = 0;  // 0: it exited.
};

// Loop thread only, but for the constructor.
class Children {
 public:
  // `oldest_fork_in_flight`: when the oldest fork request that has no answer yet was sent; nullopt: there is none.
  Children(net::IoLoop& loop, std::function<std::optional<BootTime>()> oldest_fork_in_flight);
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  // Makes this process the one that orphans of its children come to.
  static void become_subreaper();

  // on_exit: once, when the child has ended, its process group was killed and it was reaped. Not called after
  // ~Children. Of a child that is watched already the function is replaced. kNotFound: no such child.
  [[nodiscard]] Result<void> watch(pid_t pid, std::function<void(ExitStatus)> on_exit);
  // To the process; to its group as well where it leads one. Unknown and ended: nothing happens.
  void signal(pid_t pid, int signal);
  // Whether a watched child has ended and only its on_exit is due.
  bool has_ended(pid_t pid) const;
  size_t watched() const { return children_.size(); }
  // Of the watched ones: leaders of process groups.
  std::set<pid_t> pids() const;

  // Kills and reaps orphans; repeats itself while there are any.
  void sweep();
  // Kills every child, waits for it up to `patience` (blocks), sweeps the rest. For the end of this process.
  void kill_all(std::chrono::milliseconds patience);

 private:
  struct Child;
  void reap(const std::shared_ptr<Child>& child);
  std::vector<pid_t> own_children() const;
  void sweep_later(std::chrono::milliseconds delay);

  net::IoLoop& loop_;
  std::function<std::optional<BootTime>()> oldest_fork_in_flight_;
  const std::set<pid_t> older_;  // Children from before.
  std::map<pid_t, std::shared_ptr<Child>> children_;
  std::map<pid_t, BootTime> strangers_;  // Children that nobody here watches, and when they were first seen.
  net::IoLoop::TimerId sweep_timer_ = 0;
};

// All children of this process, whichever thread has them. Exposed for tests.
[[nodiscard]] std::vector<pid_t> children_of_this_process();

// Ends everything that carries `name`=`value` in the environment it was started with, but this process; waits until it
// is gone, at most `patience`. For what an earlier worker of this node left when it was killed. Returns how many were
// found.
size_t kill_by_environment(std::string_view name, std::string_view value, std::chrono::milliseconds patience);

}  // namespace volador::worker
