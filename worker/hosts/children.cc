#include "worker/hosts/children.h"

#include <dirent.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "runtime/log.h"
#include "runtime/net/unique_fd.h"

namespace volador::worker {
namespace {

using std::chrono::milliseconds;

constexpr auto kStrangerAge = milliseconds(1000);  // A younger process may be a host whose Forked message is unread.
constexpr auto kSweepSoon = milliseconds(50);
constexpr auto kSweepAgain = milliseconds(250);
constexpr int kEmptyListsMin = 3;

// A process that has ended and waits to be collected counts.
bool has_child() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 || errno != ECHILD;
}

int pidfd_open(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

std::optional<pid_t> parse_pid(std::string_view text) {
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (error != std::errc() || end != text.data() + text.size() || pid <= 0) return std::nullopt;
  return pid;
}

template <class Visit>
void each_number_in(const char* folder, Visit&& visit) {
  DIR* open = ::opendir(folder);
  if (open == nullptr) return;
  while (const dirent* entry = ::readdir(open)) {
    if (const auto number = parse_pid(entry->d_name)) visit(*number);
  }
  ::closedir(open);
}

std::string read_whole(const std::string& path, size_t bytes_max) {
  std::ifstream in(path, std::ios::binary);
  std::string text;
  char buffer[4096];
  while (in && text.size() < bytes_max) {
    in.read(buffer, sizeof buffer);
    text.append(buffer, static_cast<size_t>(in.gcount()));
  }
  return text;
}

pid_t parent_of(pid_t pid) {
  const std::string stat = read_whole(fmt::format("/proc/{}/stat", pid), 4096);
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream words(stat.substr(name_end + 1));
  std::string state;
  pid_t parent = 0;
  words >> state >> parent;
  return parent;
}

}  // namespace

struct Children::Child final : net::Pollable {
  Children* owner = nullptr;
  std::weak_ptr<Child> self;
  pid_t pid = 0;
  net::UniqueFd pidfd;
  std::function<void(ExitStatus)> on_exit;
  int holds = 0;
  bool ended_while_held = false;  // Its descriptor is not watched any more.

  void on_events(uint32_t) override {
    if (owner != nullptr) owner->reap(self.lock());
  }
};

Children::Children(net::IoLoop& loop, std::function<std::optional<BootTime>()> oldest_fork_in_flight,
                   std::function<bool(pid_t)> is_warm)
    : loop_(loop), oldest_fork_in_flight_(std::move(oldest_fork_in_flight)), is_warm_(std::move(is_warm)), older_([] {
        const auto pids = children_of_this_process();
        return std::set<pid_t>(pids.begin(), pids.end());
      }()) {}

Children::~Children() {
  if (sweep_timer_ != 0) loop_.cancel_timer(sweep_timer_);
  for (const auto& [pid, child] : children_) {
    child->owner = nullptr;
    loop_.unwatch(child->pidfd.get());
  }
}

std::set<pid_t> Children::pids() const {
  std::set<pid_t> all;
  for (const auto& [pid, child] : children_) all.insert(pid);
  return all;
}

void Children::become_subreaper() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

Result<void> Children::watch(pid_t pid, std::function<void(ExitStatus)> on_exit) {
  if (const auto known = children_.find(pid); known != children_.end()) {  // Not reaped: the pid is still its own.
    known->second->on_exit = std::move(on_exit);
    return {};
  }
  auto child = std::make_shared<Child>();
  child->pidfd.reset(pidfd_open(pid));
  if (!child->pidfd)
    return make_error(ErrorCode::kNotFound, fmt::format("no process {}: {}", pid, std::strerror(errno)));
  child->owner = this;
  child->self = child;
  child->pid = pid;
  child->on_exit = std::move(on_exit);
  VOLADOR_TRY(loop_.watch(child->pidfd.get(), EPOLLIN, child));
  strangers_.erase(pid);
  children_[pid] = std::move(child);
  return {};
}

void Children::hold(pid_t pid) {
  if (const auto found = children_.find(pid); found != children_.end()) ++found->second->holds;
}

void Children::release(pid_t pid) {
  const auto found = children_.find(pid);
  if (found == children_.end() || found->second->holds == 0 || --found->second->holds > 0) return;
  const auto child = found->second;
  if (child->ended_while_held) reap(child);
}

bool Children::has_ended(pid_t pid) const {
  const auto found = children_.find(pid);
  if (found == children_.end()) return true;
  pollfd look{found->second->pidfd.get(), POLLIN, 0};
  return ::poll(&look, 1, 0) > 0;
}

void Children::signal(pid_t pid, int signal) {
  const auto found = children_.find(pid);
  if (found == children_.end()) return;
  // A watched child is not reaped yet, so its pid cannot belong to another process.
  ::kill(-pid, signal);
  ::syscall(SYS_pidfd_send_signal, found->second->pidfd.get(), signal, nullptr, 0);
}

void Children::reap(const std::shared_ptr<Child>& child) {
  if (!child) return;
  siginfo_t info{};
  const int looked = ::waitid(P_PID, static_cast<id_t>(child->pid), &info, WEXITED | WNOHANG | WNOWAIT | __WALL);
  if (looked == 0 && info.si_pid == 0) return;  // It is alive.
  if (looked != 0 && errno != ECHILD) return;
  if (child->holds > 0) {
    if (!std::exchange(child->ended_while_held, true)) loop_.unwatch(child->pidfd.get());
    return;
  }
  if (looked == 0) {
    ::kill(-child->pid, SIGKILL);  // Kills the rest of its group while the zombie holds the pid.
    ::waitid(P_PID, static_cast<id_t>(child->pid), &info, WEXITED | WNOHANG | __WALL);
  }
  if (!child->ended_while_held) loop_.unwatch(child->pidfd.get());
  child->owner = nullptr;
  children_.erase(child->pid);
  ExitStatus status;
  if (info.si_code == CLD_EXITED)
    status.exit_code = info.si_status;
  else if (info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED)
    status.signal = info.si_status;
  sweep_later(kSweepSoon);
  if (child->on_exit) child->on_exit(status);
}

void Children::sweep_later(milliseconds delay) {
  if (sweep_timer_ != 0) return;
  sweep_timer_ = loop_.add_timer(loop_.now() + delay, [this] {
    sweep_timer_ = 0;
    sweep();
  });
}

std::vector<pid_t> Children::own_children() const {
  auto pids = children_of_this_process();
  std::erase_if(pids, [this](pid_t pid) { return older_.contains(pid); });
  return pids;
}

void Children::sweep() {
  const BootTime now = loop_.now();
  const auto oldest_fork = oldest_fork_in_flight_ ? oldest_fork_in_flight_() : std::nullopt;
  std::map<pid_t, BootTime> still;
  for (const pid_t pid : own_children()) {
    if (children_.contains(pid) || (is_warm_ && is_warm_(pid))) continue;
    const auto known = strangers_.find(pid);
    const BootTime seen = known == strangers_.end() ? now : known->second;
    still[pid] = seen;
    if (now - seen < kStrangerAge || (oldest_fork && *oldest_fork <= seen)) continue;
    if (::getpgid(pid) == pid) ::kill(-pid, SIGKILL);
    ::kill(pid, SIGKILL);
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | __WALL) == 0 && info.si_pid == pid)
      still.erase(pid);
    else
      log::info("worker", "killed a process that an ended host left behind", {{"pid", pid}});
  }
  strangers_ = std::move(still);
  if (!strangers_.empty()) sweep_later(kSweepAgain);
}

void Children::kill_all(milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  // The kernel lists children by the thread that started them, and moves them to another thread when that one ends.
  // A list that is read meanwhile misses them, so that one empty list proves nothing.
  for (int empty = 0; has_child() && empty < kEmptyListsMin;) {
    const auto left = own_children();
    empty = left.empty() ? empty + 1 : 0;
    for (const pid_t pid : left) {
      if (::getpgid(pid) == pid) ::kill(-pid, SIGKILL);
      ::kill(pid, SIGKILL);
    }
    for (const pid_t pid : left) {
      siginfo_t info{};
      ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | __WALL);
    }
    if (std::chrono::steady_clock::now() > end) break;
    std::this_thread::sleep_for(milliseconds(2));
  }
  for (const auto& [pid, child] : children_) {
    child->owner = nullptr;
    loop_.unwatch(child->pidfd.get());
  }
  children_.clear();
}

std::vector<pid_t> children_of_this_process() {
  std::set<pid_t> found;
  bool listed = false;
  each_number_in("/proc/self/task", [&](pid_t thread) {
    std::ifstream in(fmt::format("/proc/self/task/{}/children", thread));
    if (!in) return;
    listed = true;
    for (pid_t pid = 0; in >> pid;) found.insert(pid);
  });
  if (!listed) {  // A kernel without CONFIG_PROC_CHILDREN.
    const pid_t own = ::getpid();
    each_number_in("/proc", [&](pid_t pid) {
      if (parent_of(pid) == own) found.insert(pid);
    });
  }
  return {found.begin(), found.end()};
}

size_t kill_by_environment(std::string_view name, std::string_view value, milliseconds patience) {
  const std::string entry = fmt::format("{}={}", name, value);
  std::vector<net::UniqueFd> found;
  const pid_t own = ::getpid();
  each_number_in("/proc", [&](pid_t pid) {
    if (pid == own) return;
    net::UniqueFd pidfd(pidfd_open(pid));  // Opened before the check, so that the pid cannot be reused after it.
    if (!pidfd) return;
    const std::string text = std::string(1, '\0') + read_whole(fmt::format("/proc/{}/environ", pid), 256 << 10);
    const size_t at = text.find(std::string(1, '\0') + entry);
    if (at == std::string::npos || (at + 1 + entry.size() < text.size() && text[at + 1 + entry.size()] != '\0')) return;
    ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
    found.push_back(std::move(pidfd));
  });
  const auto end = std::chrono::steady_clock::now() + patience;
  for (const net::UniqueFd& pidfd : found) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd wait{pidfd.get(), POLLIN, 0};
    ::poll(&wait, 1, static_cast<int>(std::max<long>(0, left)));
  }
  return found.size();
}

}  // namespace volador::worker
