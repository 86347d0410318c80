#include "cli/job_session.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "cli/command_channel.h"
#include "jobs/job_client.h"
#include "jobs/remote/write_whole.h"
#include "runtime/control/cluster_api.h"
#include "runtime/net/unique_fd.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"

namespace volador::cli {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kInputAtOnce = size_t{256} << 10;
constexpr std::chrono::seconds kHeadPatience{60};  // After that the rank ends a command whose output has no reader.
constexpr milliseconds kFirstPause{20};
constexpr milliseconds kLongestPause{500};

// Passes signals of this process on as bytes, while it exists. One at a time.
class SignalPipe {
 public:
  explicit SignalPipe(const std::vector<int>& signals) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return;
    read_.reset(ends[0]);
    write_.reset(ends[1]);
    target_ = ends[1];
    for (const int signal : signals) {
      struct sigaction action {};
      action.sa_handler = [](int number) {
        const int kept = errno;
        const auto byte = static_cast<unsigned char>(number);
        [[maybe_unused]] const ssize_t written = ::write(target_, &byte, 1);
        errno = kept;
      };
      action.sa_flags = SA_RESTART;
      struct sigaction before {};
      ::sigaction(signal, &action, &before);
      before_.emplace(signal, before);
    }
    struct sigaction ignored {};
    ignored.sa_handler = SIG_IGN;
    struct sigaction before {};
    ::sigaction(SIGPIPE, &ignored, &before);
    before_.emplace(SIGPIPE, before);
  }
  ~SignalPipe() {
    for (const auto& [signal, before] : before_) ::sigaction(signal, &before, nullptr);
  }
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;
  int fd() const { return read_.get(); }
  // The next signal; 0: there is none.
  int next() const {
    unsigned char number = 0;
    return ::read(read_.get(), &number, 1) == 1 ? number : 0;
  }

 private:
  static inline std::atomic<int> target_{-1};
  net::UniqueFd read_, write_;
  std::map<int, struct sigaction> before_;
};

// The terminal passes every key on, while this exists.
class RawMode {
 public:
  explicit RawMode(bool on) {
    if (!on || ::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios raw = before_;
    ::cfmakeraw(&raw);
    changed_ = ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
  }
  ~RawMode() {
    if (changed_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;

 private:
  termios before_{};
  bool changed_ = false;
};

winsize terminal_size() {
  winsize size{};
  if (::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return size;
}

class JobSession {
 public:
  JobSession(control::ClusterApi& api, const JobSessionOptions& options, const Terminal& terminal)
      : api_(api), options_(options), terminal_(terminal) {}

  Outcome run();

 private:
  // Whether the job is still to run, or its setup is.
  bool may_start_later(const Error& refusal) {
    if (!options_.waits) return false;
    const auto job = jobs::JobClient(api_).get(options_.job);
    if (!job) return false;
    // It may have started since the refusal, which is asked for once more then.
    if (job->state() == "running" && refusal.code == ErrorCode::kInvalidArgument) return !std::exchange(ran_, true);
    return job->state() == "queued" || (job->state() == "running" && refusal.code == ErrorCode::kUnavailable);
  }
  // Until the command has ended; its exit code, or why it is not known.
  Result<int> pass_output_on();
  // The thread for input and signals.
  void give();
  void give_signal(int signal);
  void stop(int exit_code);
  // Waits; false: the session is over. Signals are passed on meanwhile.
  bool pause(milliseconds time);

  control::ClusterApi& api_;
  const JobSessionOptions& options_;
  const Terminal& terminal_;
  CommandChannel command_{api_, options_.job, options_.rank};
  bool ran_ = false;  // The job was seen running.
  std::optional<SignalPipe> signals_;
  net::UniqueFd over_{::eventfd(0, EFD_CLOEXEC)};
  std::mutex mutex_;
  std::optional<int> stopped_;   // The exit code after a signal that ends this process.
  std::optional<Error> failed_;  // Why input does not arrive.
};

// The command is to end, and so is this process.
void JobSession::stop(int exit_code) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopped_) stopped_ = exit_code;
  }
  command_.close();
}

void JobSession::give_signal(int signal) {
  if (signal == SIGTERM || signal == SIGHUP) return stop(128 + signal);
  if (signal == SIGINT) command_.signal("INT");
  if (signal == SIGQUIT) command_.signal("QUIT");
  if (signal != SIGWINCH) return;
  const winsize size = terminal_size();
  command_.resize(size.ws_row, size.ws_col);
}

bool JobSession::pause(milliseconds time) {
  const auto until = Steady::now() + time;
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(until - Steady::now()).count();
    if (left <= 0) return true;
    std::array<pollfd, 2> watched{{{over_.get(), POLLIN, 0}, {signals_->fd(), POLLIN, 0}}};
    if (::poll(watched.data(), watched.size(), static_cast<int>(left)) < 0) continue;
    if (watched[0].revents != 0) return false;
    if (const int signal = signals_->next(); signal != 0) give_signal(signal);
  }
}

void JobSession::give() {
  bool open = options_.input || options_.terminal;
  std::string bytes;
  while (true) {
    std::array<pollfd, 3> watched{
        {{over_.get(), POLLIN, 0}, {signals_->fd(), POLLIN, 0}, {open ? STDIN_FILENO : -1, POLLIN, 0}}};
    if (::poll(watched.data(), watched.size(), -1) < 0) continue;
    if (watched[0].revents != 0) return;
    if (watched[1].revents != 0) {
      while (const int signal = signals_->next()) give_signal(signal);
      continue;
    }
    if (watched[2].revents == 0) continue;
    bytes.resize(kInputAtOnce);
    const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
    open = got > 0;
    if (auto given = command_.give(bytes, !open, [this](milliseconds time) { return pause(time); }); !given) {
      const std::lock_guard lock(mutex_);
      failed_ = given.error();
    }
  }
}

Result<int> JobSession::pass_output_on() {
  auto heard = Steady::now();
  bool told = false;
  milliseconds wait = kFirstPause;
  while (true) {
    const auto reply = command_.read(options_.wait);
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return *stopped_;
      if (failed_) return make_error(*failed_);
    }
    if (!reply) {
      const ErrorCode code = reply.error().code;
      const bool may_come_back = code == ErrorCode::kUnavailable || code == ErrorCode::kTimeout;
      if (!may_come_back || Steady::now() - heard > kHeadPatience) return make_error(reply.error());
      if (!std::exchange(told, true) && !options_.terminal)
        terminal_.note(terminal_.fill("no answer yet, asks again: {}", reply.error().message));
      std::this_thread::sleep_for(wait);
      wait = std::min(wait * 2, kLongestPause);
      continue;
    }
    heard = Steady::now();
    told = false;
    wait = kFirstPause;
    if (!jobs::write_whole(STDOUT_FILENO, reply->output()) || !jobs::write_whole(STDERR_FILENO, reply->error())) {
      stop(128 + SIGPIPE);
      return 128 + SIGPIPE;
    }
    if (reply->ended()) return reply->exit_code();
  }
}

Outcome JobSession::run() {
  v1::StartCommandRequest request;
  for (const std::string& word : options_.command) request.add_command(word);
  request.set_terminal(options_.terminal);
  request.set_input(options_.input || options_.terminal);
  if (options_.terminal) {
    const winsize size = terminal_size();
    request.set_rows(size.ws_row);
    request.set_columns(size.ws_col);
  }
  auto started = command_.start(request);
  while (!started && may_start_later(started.error())) {
    std::this_thread::sleep_for(kLongestPause);
    started = command_.start(request);
  }
  if (!started) return fail(started.error());

  Result<int> ended = 0;
  {
    signals_.emplace(options_.terminal ? std::vector<int>{SIGWINCH, SIGTERM, SIGHUP}
                                       : std::vector<int>{SIGINT, SIGQUIT, SIGTERM, SIGHUP});
    const RawMode raw(options_.terminal);
    std::thread giver([this] { give(); });
    ended = pass_output_on();
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(over_.get(), &one, sizeof one);
    giver.join();
    signals_.reset();
  }
  if (!ended) return fail(ended.error());
  if (*ended == 0) return {};
  return fail(static_cast<ExitCode>(*ended), Error{ErrorCode::kApplication, ""});
}

}  // namespace

Outcome run_job_session(control::ClusterApi& api, const JobSessionOptions& options, const Terminal& terminal) {
  return JobSession(api, options, terminal).run();
}

}  // namespace volador::cli
