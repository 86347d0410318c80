#include "volador/template_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/actor/host_runtime.h"
#include "runtime/fork_memory.h"
#include "runtime/log.h"
#include "runtime/net/fd_passing.h"
#include "runtime/protocol/host.pb.h"
#include "volador/embedding.h"

namespace volador {
namespace {

constexpr std::chrono::milliseconds kPrepareMax{100};  // Limit of the preparation, for which the first actor waits.

// Runs in the new host: sets up descriptors, environment and session, then runs the actor.
[[noreturn]] void become_host(net::UniqueFd template_control, const protocol::Fork& request, net::FdMessage message,
                              const Embedding* embedding) {
  template_control.reset();
  setsid();  // The worker kills the whole process group.
  dup2(message.fds[1].get(), STDOUT_FILENO);
  dup2(message.fds[2].get(), STDERR_FILENO);
  message.fds[1].reset();
  message.fds[2].reset();
  for (const std::string& name : request.unset_env()) unsetenv(name.c_str());
  enter_host_environment(request.env(), request.cwd());
  if (embedding != nullptr) embedding->after_fork_in_host();
  net::UniqueFd control = std::move(message.fds[0]);
  net::UniqueFd lease_page = std::move(message.fds[3]);
  run_host(std::move(control), std::move(lease_page), request.spare());
}

// Forks a child of this process's parent, the worker: one clone takes 1.2 ms instead of 4.2 ms for two forks with
// LibTorch loaded (docs/decisions.md). The kernel allows only exit signal 0, so the worker waits with __WALL. A raw
// clone skips the atfork handlers, which are not needed in a single-threaded process, and leaves glibc with the
// parent's thread id and without a robust list; both are set again. Returns the pid, 0 in the child, or -errno.
pid_t clone_into_parent() {
  int* tid = nullptr;
  if (prctl(PR_GET_TID_ADDRESS, &tid) != 0 || tid == nullptr) return -ENOSYS;
  void* robust_list = nullptr;
  size_t robust_size = 0;
  syscall(SYS_get_robust_list, 0, &robust_list, &robust_size);
  clone_args arguments{};
  arguments.flags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
  arguments.child_tid = reinterpret_cast<uint64_t>(tid);
  const long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
  if (pid == 0 && robust_list != nullptr) syscall(SYS_set_robust_list, robust_list, robust_size);
  return pid < 0 ? -errno : static_cast<pid_t>(pid);
}

// Same with plain forks, if clone3 is not available (old kernels, seccomp): forks twice, so that the host becomes a
// child of the nearest subreaper, the worker, once the intermediate process has ended.
pid_t fork_twice() {
  int pid_pipe[2];
  if (pipe2(pid_pipe, O_CLOEXEC) != 0) return -errno;
  const pid_t middle = fork();
  if (middle == 0) {
    close(pid_pipe[0]);
    const pid_t host = fork();
    if (host == 0) {
      close(pid_pipe[1]);
      return 0;
    }
    const int32_t result = host > 0 ? host : -errno;
    if (write(pid_pipe[1], &result, sizeof result) != static_cast<ssize_t>(sizeof result)) _exit(1);
    _exit(0);
  }
  int32_t result = -errno;
  close(pid_pipe[1]);
  if (middle > 0) {
    if (read(pid_pipe[0], &result, sizeof result) != static_cast<ssize_t>(sizeof result)) result = -ECHILD;
    int status = 0;
    while (waitpid(middle, &status, 0) < 0 && errno == EINTR) {
    }
  }
  close(pid_pipe[0]);
  return result;
}

void serve_fork(net::UniqueFd& control, const protocol::Fork& request, net::FdMessage message,
                const Embedding* embedding) {
  protocol::FromTemplate answer;
  auto& forked = *answer.mutable_forked();
  forked.set_host_id(request.host_id());
  if (message.fds.size() != 4) {
    forked.set_error("the fork request did not carry four descriptors");
  } else {
    std::fflush(nullptr);
    if (embedding != nullptr) embedding->before_fork();
    pid_t pid = clone_into_parent();
    if (pid == -ENOSYS || pid == -EPERM || pid == -EINVAL) pid = fork_twice();
    if (pid == 0) become_host(std::move(control), request, std::move(message), embedding);
    if (embedding != nullptr) embedding->after_fork_in_template();
    if (pid > 0) {
      forked.set_pid(pid);
    } else {
      forked.set_error(std::string("fork: ") + std::strerror(-pid));
    }
  }
  if (!net::send_message(control.get(), answer.SerializeAsString())) _exit(0);
}

}  // namespace

int count_threads() {
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return 1;
  int count = 0;
  while (const dirent* entry = readdir(tasks)) {
    if (entry->d_name[0] != '.') ++count;
  }
  closedir(tasks);
  return count;
}

void run_template(net::UniqueFd control, const Embedding* embedding) {
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  const int threads = count_threads();
  if (threads == 1) {  // Only a process with one thread is forked.
    prepare_for_hosts();
    prepare_memory_for_forks(kPrepareMax);
  }
  protocol::FromTemplate held;
  held.mutable_held()->set_threads(threads);
  held.mutable_held()->set_makes_spares(true);
  if (!net::send_message(control.get(), held.SerializeAsString())) _exit(0);
  while (true) {
    auto message = net::recv_message(control.get());
    if (!message) _exit(0);  // The worker has ended or closed its end.
    protocol::ToTemplate request;
    if (request.ParseFromString(message->bytes) && request.has_fork())
      serve_fork(control, request.fork(), std::move(*message), embedding);
  }
}

}  // namespace volador
