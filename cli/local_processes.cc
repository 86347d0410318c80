#include "cli/local_processes.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "head/journal/directory_lock.h"
#include "runtime/cluster_processes.h"
#include "runtime/stop_signal.h"
#include "worker/hosts/leftovers.h"

namespace volador::cli {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr size_t kPidFileBytesMax = 256;

// A process handle that is safe against reuse of the pid.
class Handle {
 public:
  explicit Handle(const LocalProcess& process)
      : fd_(static_cast<int>(::syscall(SYS_pidfd_open, process.record.pid, 0))) {
    // The pid may have been reused between reading the file and opening it.
    if (fd_ >= 0 && !is_running(process.record)) {
      ::close(fd_);
      fd_ = -1;
    }
  }
  Handle(Handle&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (fd_ >= 0) ::close(fd_);
  }
  void signal(int number) const {
    if (fd_ >= 0) ::syscall(SYS_pidfd_send_signal, fd_, number, nullptr, 0);
  }
  // Returns whether it ended by then.
  bool wait(steady_clock::time_point deadline) const {
    while (fd_ >= 0) {
      const auto left = std::max<int64_t>(0, std::chrono::ceil<milliseconds>(deadline - steady_clock::now()).count());
      pollfd waiting{.fd = fd_, .events = POLLIN, .revents = 0};
      const int ready = ::poll(&waiting, 1, static_cast<int>(left));
      if (ready > 0) return true;
      if (ready == 0 || errno != EINTR) return false;
    }
    return true;
  }

 private:
  int fd_;
};

std::vector<Stopped> stop_at_once(const std::vector<LocalProcess>& processes, milliseconds patience,
                                  int how = SIGTERM) {
  std::vector<Handle> handles;
  for (const LocalProcess& process : processes) {
    handles.emplace_back(process);
    handles.back().signal(how);
  }
  const auto deadline = steady_clock::now() + patience;
  std::vector<Stopped> stopped;
  for (size_t i = 0; i < processes.size(); ++i) {
    Stopped entry{.process = processes[i]};
    if (!handles[i].wait(deadline)) {
      entry.killed = true;
      handles[i].signal(SIGKILL);
      (void)handles[i].wait(steady_clock::now() + std::chrono::seconds(5));
    }
    stopped.push_back(std::move(entry));
  }
  return stopped;
}

}  // namespace

std::string describe(const LocalProcess& process) {
  if (process.role == LocalProcess::Role::kHead) return fmt::format("head (pid {})", process.record.pid);
  return fmt::format("worker {} (pid {})", process.node, process.record.pid);
}

std::string describe(const Leftover& left) {
  const std::string pid = left.pid == 0 ? std::string() : fmt::format(" (pid {})", left.pid);
  const std::string who = left.role == LocalProcess::Role::kHead ? "the head" : "worker " + left.node;
  return fmt::format(
      "what {}{} left when it was killed{}", who, pid,
      left.processes_ended == 0 ? std::string() : fmt::format("; {} of its processes still ran", left.processes_ended));
}

std::vector<LocalProcess> running_processes(const Paths& paths, const std::string& cluster) {
  std::vector<LocalProcess> processes;
  const ClusterPaths files = paths.cluster(cluster);
  auto add = [&](LocalProcess::Role role, const std::string& node, const fs::path& pid_file) {
    if (auto record = running_process(pid_file))
      processes.push_back({.role = role, .cluster = cluster, .node = node, .record = *record, .pid_file = pid_file});
  };
  for (const std::string& node : local_nodes(paths, cluster))
    add(LocalProcess::Role::kWorker, node, files.node(node).pid());
  add(LocalProcess::Role::kHead, "", files.head().pid());
  return processes;
}

std::vector<Stopped> stop_processes(const std::vector<LocalProcess>& processes, milliseconds patience) {
  std::vector<LocalProcess> workers, heads;
  for (const LocalProcess& process : processes)
    (process.role == LocalProcess::Role::kHead ? heads : workers).push_back(process);
  // Workers deregister at their head, so the head is stopped last.
  std::vector<Stopped> stopped = stop_at_once(workers, patience);
  for (Stopped& entry : stop_at_once(heads, patience)) stopped.push_back(std::move(entry));
  return stopped;
}

std::vector<Stopped> stop_for_restart(const std::vector<LocalProcess>& processes, milliseconds patience) {
  std::vector<LocalProcess> heads;
  for (const LocalProcess& process : processes) {
    if (process.role == LocalProcess::Role::kHead) heads.push_back(process);
  }
  return stop_at_once(heads, patience, kStopForRestart);
}

namespace {

// No value if no head died, or one is running or starting.
std::optional<Leftover> remove_leftovers_of_head(const ClusterPaths& cluster) {
  const HeadPaths files = cluster.head();
  auto text = read_file_limited(files.pid(), kPidFileBytesMax);
  if (!text) return std::nullopt;
  auto lock = head::DirectoryLock::acquire(files.directory);
  if (!lock || running_process(files.pid())) return std::nullopt;
  Leftover left{.role = LocalProcess::Role::kHead};
  if (auto record = parse_process_record(*text)) left.pid = record->pid;
  remove_half_written(files.directory);
  remove_half_written(cluster.directory);
  std::error_code ignored;
  fs::remove(files.pid(), ignored);
  return left;
}

}  // namespace

Result<std::vector<Leftover>> remove_leftovers(const Paths& paths, const std::string& cluster) {
  std::vector<Leftover> all;
  const ClusterPaths files = paths.cluster(cluster);
  for (const std::string& node : local_nodes(paths, cluster)) {
    auto left = worker::remove_leftovers(paths, cluster, node);
    if (!left) return make_error(left.error());
    if (*left)
      all.push_back({.role = LocalProcess::Role::kWorker,
                     .node = node,
                     .pid = (*left)->worker,
                     .processes_ended = (*left)->processes_ended});
  }
  if (auto left = remove_leftovers_of_head(files)) all.push_back(*left);
  return all;
}

}  // namespace volador::cli
