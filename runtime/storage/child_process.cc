#include "runtime/storage/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace volador::storage {
namespace {

constexpr size_t kChunkBytes = 256 << 10;
constexpr size_t kLineBytesMax = 64 << 10;
constexpr int kNoProgram = 127;

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

struct Pipe {
  net::UniqueFd read, write;
};
Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return make_error(ErrorCode::kUnavailable, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  return Pipe{net::UniqueFd(ends[0]), net::UniqueFd(ends[1])};
}

void set_nonblocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

// Makes a descriptor readable once `stop` is requested.
class StopEvent {
 public:
  explicit StopEvent(const std::stop_token& stop)
      : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), callback_(stop, Notify{fd_.get()}) {}
  int fd() const { return fd_.get(); }

 private:
  struct Notify {
    int fd;
    void operator()() const {
      const uint64_t one = 1;
      [[maybe_unused]] const auto written = ::write(fd, &one, sizeof one);
    }
  };
  net::UniqueFd fd_;
  std::stop_callback<Notify> callback_;
};

tl::unexpected<Error> cancelled() { return make_error(ErrorCode::kCancelled, "cancelled"); }

}  // namespace

// vfork: the child shares the memory until it runs the program, and only makes system calls until then. posix_spawn has
// no way to let the child end with this thread.
Result<ChildProcess> ChildProcess::start(const Command& command) {
  const std::vector<char*> words = pointers_to(command.words), variables = pointers_to(command.variables);
  auto in = make_pipe(), out = make_pipe(), err = make_pipe();
  for (const auto* one : {&in, &out, &err}) {
    if (!*one) return make_error(one->error());
  }
  const pid_t parent = ::getpid();
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  volatile int failed = 0;
  const pid_t pid = ::vfork();
  if (pid == 0) {
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    for (int number = 1; number < NSIG; ++number) ::sigaction(number, &usual, nullptr);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kNoProgram);
    if (::dup2(in->read.get(), STDIN_FILENO) >= 0 && ::dup2(out->write.get(), STDOUT_FILENO) >= 0 &&
        ::dup2(err->write.get(), STDERR_FILENO) >= 0)
      ::execve(words.front(), words.data(), variables.data());
    failed = errno;
    ::_exit(kNoProgram);
  }
  const int refused = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0)
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("cannot start {}: {}", command.words.front(), std::strerror(refused)));
  ChildProcess child;
  child.pid_ = pid;
  if (failed != 0) {
    child.in_.reset();
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    child.pid_ = 0;
    const ErrorCode code = failed == ENOENT                        ? ErrorCode::kNotFound
                           : failed == EACCES || failed == ENOEXEC ? ErrorCode::kPermissionDenied
                                                                   : ErrorCode::kUnavailable;
    return make_error(code, fmt::format("cannot start {}: {}", command.words.front(), std::strerror(failed)));
  }
  child.in_ = std::move(in->write);
  child.out_ = std::move(out->read);
  child.err_ = std::move(err->read);
  for (const net::UniqueFd* fd : {&child.in_, &child.out_, &child.err_}) set_nonblocking(fd->get());
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      in_(std::move(other.in_)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)),
      line_(std::move(other.line_)) {}

ChildProcess::~ChildProcess() { end(); }

void ChildProcess::end() {
  if (pid_ == 0) return;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

Result<int> ChildProcess::wait() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0) {
    if (errno != EINTR) {  // A program that ignores SIGCHLD has no status of its children.
      pid_ = 0;
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("the end of a child process is lost: {}", std::strerror(errno)));
    }
  }
  ::kill(-pid_, SIGKILL);  // What it may have started.
  pid_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void ChildProcess::take_lines(std::string_view bytes, const std::function<void(std::string_view)>& on_line) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (line_.size() < kLineBytesMax) line_ += part.substr(0, kLineBytesMax - line_.size());
    if (end == bytes.npos) return;
    if (on_line && !line_.empty()) on_line(line_);
    line_.clear();
    bytes.remove_prefix(end + 1);
  }
}

Result<int> ChildProcess::run(const Reader& reader, std::stop_token stop) {
  const StopEvent stopped(stop);
  std::string_view input = reader.input;
  if (input.empty()) in_.reset();
  std::string buffer(kChunkBytes, '\0');
  // SIGPIPE would end this process if the child closed its stdin early.
  sigset_t pipe_signal, before;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  struct Restore {
    const sigset_t& pipe_signal;
    const sigset_t& before;
    ~Restore() {
      const timespec now{};
      if (sigismember(&before, SIGPIPE) == 0) ::sigtimedwait(&pipe_signal, nullptr, &now);
      ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
  } const restore{pipe_signal, before};
  while (out_ || err_) {
    std::array<pollfd, 4> watched{pollfd{stopped.fd(), POLLIN, 0}, pollfd{out_ ? out_.get() : -1, POLLIN, 0},
                                  pollfd{err_ ? err_.get() : -1, POLLIN, 0}, pollfd{in_ ? in_.get() : -1, POLLOUT, 0}};
    if (::poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR)
      return make_error(ErrorCode::kUnavailable, fmt::format("poll: {}", std::strerror(errno)));
    if (watched[0].revents != 0) {
      end();
      return cancelled();
    }
    if (watched[3].revents != 0) {
      const ssize_t count = ::write(in_.get(), input.data(), input.size());
      if (count > 0) input.remove_prefix(static_cast<size_t>(count));
      if (input.empty() || (count < 0 && errno != EAGAIN && errno != EINTR)) in_.reset();
    }
    for (net::UniqueFd* from : {&out_, &err_}) {
      if (watched[from == &out_ ? 1 : 2].revents == 0) continue;
      const ssize_t count = ::read(from->get(), buffer.data(), buffer.size());
      if (count == 0) from->reset();
      if (count <= 0) continue;
      const std::string_view bytes(buffer.data(), static_cast<size_t>(count));
      if (from == &err_) {
        take_lines(bytes, reader.on_line);
      } else if (reader.on_output) {
        if (auto taken = reader.on_output(bytes); !taken) {
          end();
          return make_error(taken.error());
        }
      }
    }
  }
  if (!line_.empty()) take_lines("\n", reader.on_line);
  return wait();
}

Result<size_t> ChildProcess::read(char* to, size_t size, std::stop_token stop) {
  in_.reset();
  const StopEvent stopped(stop);
  size_t total = 0;
  while (total < size && out_) {
    std::array<pollfd, 2> watched{pollfd{stopped.fd(), POLLIN, 0}, pollfd{out_.get(), POLLIN, 0}};
    if (::poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR)
      return make_error(ErrorCode::kUnavailable, fmt::format("poll: {}", std::strerror(errno)));
    if (watched[0].revents != 0) {
      end();
      return cancelled();
    }
    if (watched[1].revents == 0) continue;
    const ssize_t count = ::read(out_.get(), to + total, size - total);
    if (count == 0) out_.reset();
    if (count > 0) total += static_cast<size_t>(count);
  }
  return total;
}

Result<int> ChildProcess::finish(const std::function<void(std::string_view)>& on_line, std::stop_token stop) {
  return run({.on_line = on_line}, std::move(stop));
}

std::string find_in_path(const std::string& name, std::string_view path) {
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    const std::filesystem::path file = std::filesystem::path(path.substr(at, end - at)) / name;
    std::error_code failed;
    if (file.is_absolute() && ::access(file.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(file, failed))
      return file.string();
    at = end + 1;
  }
  return {};
}

}  // namespace volador::storage
