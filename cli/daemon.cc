#include "cli/daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>

#include "runtime/log.h"
#include "runtime/paths.h"

namespace volador::cli {

namespace {

constexpr int kPipe = 3;  // Descriptor of the daemon's end of the pipe.
constexpr size_t kReportBytesMax = 64 << 10;
constexpr size_t kComplaintBytesMax = 4 << 10;

constexpr char kReport = 'r', kNote = 'n';  // First bytes of messages.

// A message: kind, text and a zero byte, so that a message truncated by the daemon's death is not taken for a complete
// one.
void write_message(char kind, const std::string& text) {
  const std::string message = kind + text + '\0';
  size_t done = 0;
  while (done < message.size()) {
    const ssize_t count = ::write(kPipe, message.data() + done, message.size() - done);
    if (count < 0 && errno != EINTR) break;
    if (count > 0) done += static_cast<size_t>(count);
  }
}

void redirect_output(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int target = fd >= 0 ? fd : ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (target < 0) return;
  ::dup2(target, STDOUT_FILENO);
  ::dup2(target, STDERR_FILENO);
  ::close(target);
}

class PipeToStarter final : public Starter {
 public:
  explicit PipeToStarter(const DaemonOptions& options) : options_(options) {}
  void ready(const std::string& report) override {
    std::lock_guard lock(mutex_);
    if (std::exchange(said_, true)) return;
    redirect_output(options_.stray_output);
    write_message(kReport, report);
    ::close(kPipe);
  }
  void note(const std::string& text) override {
    std::lock_guard lock(mutex_);
    if (!said_) write_message(kNote, text);
  }

 private:
  const DaemonOptions& options_;
  std::mutex mutex_;
  bool said_ = false;
};

[[noreturn]] void live_as_daemon(const DaemonOptions& options, const DaemonBody& body, int pipe, int complaints) {
  ::setsid();
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD}) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);

  // Move the two descriptors out of 0 to 3, which are reassigned below.
  const int pipe_kept = ::fcntl(pipe, F_DUPFD, 10), complaints_kept = ::fcntl(complaints, F_DUPFD, 10);
  const int null = ::open("/dev/null", O_RDWR);
  ::dup2(null, STDIN_FILENO);
  ::dup2(complaints_kept, STDOUT_FILENO);
  ::dup2(complaints_kept, STDERR_FILENO);
  ::dup3(pipe_kept, kPipe, O_CLOEXEC);
  ::close_range(kPipe + 1, ~0u, 0);
  if (::chdir("/") != 0) std::fprintf(stderr, "cannot change to /\n");

  PipeToStarter starter(options);
  const int code = body(starter);
  std::fflush(nullptr);
  log::drain();
  ::_exit(code);
}

enum class Wait : uint8_t { kReported, kEnded, kTimedOut };

// Extracts complete messages from the received bytes. Returns whether the report was among them.
bool take_messages(std::string& read, const DaemonOptions& options, std::string& report) {
  for (size_t end = read.find('\0'); end != std::string::npos; end = read.find('\0')) {
    const std::string message = read.substr(0, end);
    read.erase(0, end + 1);
    const std::string text = message.empty() ? message : message.substr(1);
    if (message.starts_with(kReport)) {
      report = text;
      return true;
    }
    if (message.starts_with(kNote) && options.on_note) options.on_note(text);
  }
  return false;
}

Wait read_report(int fd, const DaemonOptions& options, std::string& report) {
  const auto deadline = std::chrono::steady_clock::now() + options.ready_timeout;
  std::string read;
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return Wait::kTimedOut;
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno != EINTR) return Wait::kEnded;
    if (ready <= 0) continue;
    std::array<char, 4096> buffer;
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count == 0 || (count < 0 && errno != EINTR)) return Wait::kEnded;
    if (count > 0) read.append(buffer.data(), static_cast<size_t>(count));
    if (take_messages(read, options, report)) return Wait::kReported;
    if (read.size() > kReportBytesMax) return Wait::kEnded;
  }
}

// Returns the end of the daemon's stderr output.
std::string complaints_of(int fd) {
  std::string text(kComplaintBytesMax, '\0');
  const off_t size = ::lseek(fd, 0, SEEK_END);
  const off_t from = size > static_cast<off_t>(text.size()) ? size - static_cast<off_t>(text.size()) : 0;
  const ssize_t count = ::pread(fd, text.data(), text.size(), from);
  text.resize(count > 0 ? static_cast<size_t>(count) : 0);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

DaemonFailure failed(const std::string& action, int error_number) {
  return {.exit_code = 1,
          .error = {ErrorCode::kUnavailable, fmt::format("cannot {}: {}", action, std::strerror(error_number))}};
}

}  // namespace

tl::expected<Daemon, DaemonFailure> start_daemon(const DaemonOptions& options, const DaemonBody& body) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return tl::unexpected(failed("make a pipe", errno));
  const int complaints = ::memfd_create("complaints", MFD_CLOEXEC);
  if (complaints < 0) {
    const int error = errno;
    ::close(pipe[0]);
    ::close(pipe[1]);
    return tl::unexpected(failed("make a file in memory", error));
  }
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) live_as_daemon(options, body, pipe[1], complaints);
  const int fork_error = errno;
  ::close(pipe[1]);

  tl::expected<Daemon, DaemonFailure> result;
  if (pid < 0) {
    result = tl::unexpected(failed(fmt::format("start the {}", options.name), fork_error));
  } else {
    std::string report;
    const Wait wait = read_report(pipe[0], options, report);
    if (wait == Wait::kReported) {
      result = Daemon{.pid = pid, .report = std::move(report)};
    } else {
      if (wait == Wait::kTimedOut) ::kill(pid, SIGKILL);
      int status = 0;
      while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
      }
      const std::string text = complaints_of(complaints);
      DaemonFailure failure{.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 1,
                            .error = {ErrorCode::kUnavailable, text}};
      if (wait == Wait::kTimedOut) {
        failure.error = {ErrorCode::kTimeout,
                         fmt::format("the {} was not ready within {} s and was ended{}{}", options.name,
                                     options.ready_timeout.count() / 1000, text.empty() ? "" : ": ", text)};
      } else if (text.empty()) {
        failure.error.message = WIFSIGNALED(status)
                                    ? fmt::format("the {} ended by signal {}", options.name, WTERMSIG(status))
                                    : fmt::format("the {} ended with exit code {}", options.name, failure.exit_code);
      }
      result = tl::unexpected(std::move(failure));
    }
  }
  ::close(pipe[0]);
  ::close(complaints);
  return result;
}

}  // namespace volador::cli
