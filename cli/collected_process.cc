#include "cli/collected_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <utility>

namespace volador::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kEndPatience{10'000}, kBesidePatience{10'000}, kBesideEndPatience{5'000};
constexpr size_t kReadBytes = 64 << 10;
constexpr int kPipeBytes = 1 << 20;
// A program that writes many short lines wakes this process for each of them. When reads follow each other that closely,
// it waits that long for more: the lines arrive that much later, and cost a tenth of the time.
constexpr milliseconds kQuickRead{2};
constexpr int kQuickReadsMin = 8;
constexpr size_t kQuickBytesMax = 16 << 10;

constexpr std::array kPassedSignals{SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};

// The signals that arrive, in a pipe: a handler gets them in any thread, those of libraries too.
int signal_pipe[2] = {-1, -1};

void on_signal(int signal) {
  const int error = errno;
  const auto number = static_cast<unsigned char>(signal);
  [[maybe_unused]] const ssize_t written = ::write(signal_pipe[1], &number, 1);
  errno = error;
}

bool asks_to_end(int signal) { return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT; }

void install_handlers() {
  if (signal_pipe[0] < 0 && ::pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) != 0) return;
  struct sigaction action {};
  action.sa_handler = on_signal;  // Without SA_RESTART: a signal ends a write that waits.
  for (const int signal : kPassedSignals) {
    struct sigaction present {};
    // What this process ignores, as after nohup, the child ignores too.
    if (::sigaction(signal, nullptr, &present) == 0 && present.sa_handler == SIG_IGN) continue;
    ::sigaction(signal, &action, nullptr);
  }
  ::sigaction(SIGCHLD, &action, nullptr);
}

void restore_handlers() {
  for (const int signal : kPassedSignals) {
    struct sigaction present {};
    if (::sigaction(signal, nullptr, &present) == 0 && present.sa_handler == on_signal) ::signal(signal, SIG_DFL);
  }
  ::signal(SIGCHLD, SIG_DFL);
}

}  // namespace

CollectedProcess::CollectedProcess(Options options) : options_(std::move(options)) {}

CollectedProcess::~CollectedProcess() {
  if (child_ != 0) signal_child(SIGKILL);
  restore_handlers();
}

tl::expected<pid_t, NotStarted> CollectedProcess::spawn(const std::vector<std::string>& command, bool captures) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  int failed[2], out[2] = {-1, -1}, error[2] = {-1, -1};
  if (::pipe2(failed, O_CLOEXEC) != 0) return tl::unexpected(NotStarted{errno});
  const net::UniqueFd failed_in(failed[0]);
  net::UniqueFd failed_out(failed[1]), out_in, error_in;
  if (captures) {
    if (::pipe2(out, O_CLOEXEC) != 0) return tl::unexpected(NotStarted{errno});
    streams_[0] = {.from = net::UniqueFd(out[0]), .to = STDOUT_FILENO};
    out_in.reset(out[1]);
    if (::pipe2(error, O_CLOEXEC) != 0) return tl::unexpected(NotStarted{errno});
    streams_[1] = {.from = net::UniqueFd(error[0]), .to = STDERR_FILENO};
    error_in.reset(error[1]);
    for (const Stream& stream : streams_) {
      ::fcntl(stream.from.get(), F_SETFL, O_NONBLOCK);
      ::fcntl(stream.from.get(), F_SETPIPE_SZ, kPipeBytes);  // What the program may write while nothing is read.
    }
  }
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return tl::unexpected(NotStarted{errno});
  if (pid == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // Where this process is killed, nothing is left.
    if (::getppid() != parent) ::_exit(1);
    if (captures) {
      ::dup2(out[1], STDOUT_FILENO);
      ::dup2(error[1], STDERR_FILENO);
    }
    ::execvp(words.front(), words.data());
    const int code = errno;
    [[maybe_unused]] const ssize_t written = ::write(failed[1], &code, sizeof code);
    ::_exit(127);
  }
  ::setpgid(pid, pid);
  failed_out.reset();
  int code = 0;
  ssize_t got = 0;
  while ((got = ::read(failed_in.get(), &code, sizeof code)) < 0 && errno == EINTR) {
  }
  if (got == sizeof code) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return tl::unexpected(NotStarted{code});
  }
  return pid;
}

tl::expected<void, NotStarted> CollectedProcess::start() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // What leaves the group becomes a child of this process when its parent ends.
  install_handlers();
  const auto started = spawn(options_.command, options_.on_output != nullptr);
  if (!started) return tl::unexpected(started.error());
  child_ = group_ = *started;
  if (!options_.beside.empty()) beside_ = spawn(options_.beside, false).value_or(0);
  if (options_.on_tick) next_tick_ = Clock::now() + options_.tick;
  buffer_.resize(kReadBytes);
  // A reader that is gone must not end this process, but the writes of the child.
  ::signal(SIGPIPE, SIG_IGN);
  return {};
}

void CollectedProcess::signal_child(int signal) {
  if (child_ != 0) ::kill(-group_, signal);
}

void CollectedProcess::end() {
  if (child_ == 0 || kill_at_) return;
  signal_child(SIGTERM);
  signal_child(SIGCONT);
  kill_at_ = Clock::now() + kEndPatience;
}

void CollectedProcess::handle_signals() {
  std::array<unsigned char, 64> signals{};
  for (;;) {
    const ssize_t got = ::read(signal_pipe[0], signals.data(), signals.size());
    if (got <= 0) return;
    for (ssize_t i = 0; i < got; ++i) {
      const int signal = signals[static_cast<size_t>(i)];
      if (signal == SIGCHLD) continue;
      was_stopped_ |= asks_to_end(signal);
      signal_child(signal);
      if (beside_ != 0) ::kill(-beside_, signal);
    }
  }
}

void CollectedProcess::reap() {
  for (;;) {
    siginfo_t ended{};
    if (::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) != 0) {
      if (errno == EINTR) continue;
      return;
    }
    const pid_t pid = ended.si_pid;
    if (pid == 0) return;
    // What it left in its group: while it is a zombie, no other group has its number.
    if (pid == child_ || pid == beside_) ::kill(-pid, SIGKILL);
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (pid == child_) {
      status_ = status;
      child_ = 0;
    } else if (pid == beside_) {
      beside_ = 0;
    }
  }
}

void CollectedProcess::write_out(Stream& stream, std::string_view bytes) {
  while (!bytes.empty() && !stream.is_closed) {
    const ssize_t written = ::write(stream.to, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EINTR) {
      handle_signals();
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd waits{.fd = stream.to, .events = POLLOUT, .revents = 0};
      ::poll(&waits, 1, -1);
      handle_signals();
    } else {
      stream.is_closed = true;
    }
  }
}

bool CollectedProcess::pass_on(size_t index) {
  Stream& stream = streams_[index];
  if (!stream.from) return false;
  const ssize_t got = ::read(stream.from.get(), buffer_.data(), buffer_.size());
  if (got < 0) return errno == EINTR;
  if (got == 0) {
    stream.from.reset();
    return false;
  }
  const std::string_view bytes(buffer_.data(), static_cast<size_t>(got));
  write_out(stream, bytes);
  if (stream.is_closed) stream.from.reset();  // The child's next write fails, as it would have without this process.
  options_.on_output(stream.to, bytes);
  const auto now = Clock::now();
  quick_reads_ = now - read_at_ < kQuickRead + kQuickRead / 2 && bytes.size() < kQuickBytesMax ? quick_reads_ + 1 : 0;
  read_at_ = now;
  return true;
}

void CollectedProcess::wait_until(const std::function<bool()>& done) {
  for (;;) {
    handle_signals();
    reap();
    if (done()) return;
    auto wake = Clock::time_point::max();
    if (kill_at_) wake = std::min(wake, *kill_at_);
    if (next_tick_) wake = std::min(wake, *next_tick_);
    const bool waits_for_more = quick_reads_ >= kQuickReadsMin;
    std::array<pollfd, 3> fds{};
    nfds_t count = 1;
    fds[0] = {.fd = signal_pipe[0], .events = POLLIN, .revents = 0};
    if (!waits_for_more) {
      for (const Stream& stream : streams_)
        if (stream.from) fds[count++] = {.fd = stream.from.get(), .events = POLLIN, .revents = 0};
    }
    const auto now = Clock::now();
    if (waits_for_more) wake = std::min(wake, now + kQuickRead);
    int timeout = -1;
    if (wake != Clock::time_point::max()) {
      const auto left = std::chrono::ceil<milliseconds>(wake - now).count();
      timeout = static_cast<int>(std::clamp<int64_t>(left, 0, 600'000));
    }
    const int ready = ::poll(fds.data(), count, timeout);
    if (ready > 0 || waits_for_more) {
      const bool first = pass_on(0), second = pass_on(1);
      if (!first && !second) quick_reads_ = 0;
    }
    const auto after = Clock::now();
    if (next_tick_ && after >= *next_tick_ && child_ != 0) {
      options_.on_tick();
      next_tick_ = Clock::now() + options_.tick;
    }
    if (kill_at_ && after >= *kill_at_) {
      signal_child(SIGKILL);
      if (beside_ != 0) ::kill(-beside_, SIGKILL);
      kill_at_.reset();
    }
  }
}

void CollectedProcess::kill_descendants(pid_t but) {
  // Each that dies leaves its children to this process.
  for (;;) {
    std::ifstream children(fmt::format("/proc/self/task/{}/children", ::getpid()));
    std::vector<pid_t> found;
    for (pid_t pid = 0; children >> pid;)
      if (pid != but) found.push_back(pid);
    if (found.empty()) return;
    for (const pid_t pid : found) ::kill(pid, SIGKILL);
    for (const pid_t pid : found) {
      while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }
}

void CollectedProcess::wait() {
  wait_until([this] { return child_ == 0; });
  next_tick_.reset();
  kill_at_.reset();
  quick_reads_ = 0;
  kill_descendants(beside_);
  for (const size_t stream : {0U, 1U})
    while (pass_on(stream)) {
    }
  for (Stream& stream : streams_) stream.from.reset();
  if (beside_ != 0) {
    kill_at_ = Clock::now() + kBesidePatience + kBesideEndPatience;
    const auto term_at = Clock::now() + kBesidePatience;
    bool is_told = was_stopped_;
    next_tick_ = term_at;
    wait_until([&] {
      if (beside_ != 0 && !is_told && Clock::now() >= term_at) {
        is_told = true;
        next_tick_.reset();
        ::kill(-beside_, SIGTERM);
      }
      return beside_ == 0;
    });
    next_tick_.reset();
    kill_at_.reset();
    kill_descendants(0);
  }
}

}  // namespace volador::cli
