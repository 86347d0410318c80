#include "worker/hosts/health_check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>

namespace volador::worker {
namespace {

using std::chrono::milliseconds;

constexpr size_t kCheckOutputBytesMax = 64 << 10;  // The rest is read and dropped.
constexpr milliseconds kPauseMin{50};
constexpr int kReadsMax =
    32;  // At once, so that a program that prints all the time does not keep the loop. More than a pipe holds.

}  // namespace

// Output of a run.
struct HealthCheck::Run final : net::Pollable {
  net::UniqueFd output;
  std::string text;
  net::IoLoop* loop = nullptr;
  bool watched = false;

  // Reads what is there. The other end may be open in processes that the program left behind.
  void drain() {
    char buffer[4096];
    for (int reads = 0; reads < kReadsMax; ++reads) {
      const ssize_t got = ::read(output.get(), buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) return unwatch();
      const size_t room = kCheckOutputBytesMax - text.size();
      text.append(buffer, std::min(static_cast<size_t>(got), room));
    }
  }
  void unwatch() {
    if (std::exchange(watched, false)) loop->unwatch(output.get());
  }
  void on_events(uint32_t) override { drain(); }
};

struct HealthCheck::Impl : std::enable_shared_from_this<HealthCheck::Impl> {
  Impl(net::IoLoop& io, Children& processes, HealthCheckOptions settings, std::function<void(const CheckResult&)> then)
      : loop(io),
        children(processes),
        options(std::move(settings)),
        on_result(std::move(then)),
        starter("health check", [&io](JobThread::Then ready) { io.post(std::move(ready)); }) {}

  void begin();
  void on_started(Result<pid_t> started);
  void on_timeout();
  void on_exit(ExitStatus status);
  void finish();
  void report(CheckResult::End end, int code, std::string error = {});

  net::IoLoop& loop;
  Children& children;
  const HealthCheckOptions options;
  const std::function<void(const CheckResult&)> on_result;
  // Read by the starting thread, which may outlive this object.
  const std::shared_ptr<std::atomic<bool>> closed = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<Run> run;  // Null: no run.
  std::optional<pid_t> pid;  // The process of the run, once it is started.
  bool timed_out = false;
  BootTime begun_at{};
  net::IoLoop::TimerId timer = 0;  // For the timeout of the run, or the next one.
  JobThread starter;               // A program on a network file system may take long to load.
};

HealthCheck::HealthCheck(net::IoLoop& loop, Children& children, HealthCheckOptions options,
                         std::function<void(const CheckResult&)> on_result)
    : impl_(std::make_shared<Impl>(loop, children, std::move(options), std::move(on_result))) {}

HealthCheck::~HealthCheck() {
  impl_->closed->store(true);
  if (impl_->timer != 0) impl_->loop.cancel_timer(impl_->timer);
  if (impl_->run) impl_->run->unwatch();
}

void HealthCheck::start() { impl_->begin(); }

void HealthCheck::Impl::begin() {
  timer = 0;
  begun_at = loop.now();
  timed_out = false;
  pid.reset();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    report(CheckResult::End::kNotStarted, 0, fmt::format("no pipe left ({})", std::strerror(errno)));
    return finish();
  }
  run = std::make_shared<Run>();
  run->output.reset(ends[0]);
  run->loop = &loop;
  net::UniqueFd write_end(ends[1]);
  ::fcntl(write_end.get(), F_SETFL, 0);  // The program expects a blocking one.
  if (!loop.watch(run->output.get(), EPOLLIN, run)) {
    report(CheckResult::End::kNotStarted, 0, "no descriptor left");
    return finish();
  }
  run->watched = true;
  timer = loop.add_timer(begun_at + options.timeout, [weak = weak_from_this()] {
    if (const auto self = weak.lock(); self && !*self->closed) self->on_timeout();
  });
  starter.post([program = options.program.string(), env = options.env, ended = closed, weak = weak_from_this(),
                write_end = std::move(write_end)]() mutable -> JobThread::Then {
    if (*ended) return {};
    auto started = spawn({.path = program, .env = std::move(env), .cwd = "/", .stdout_fd = write_end.get()});
    write_end.reset();
    if (*ended && started) {  // The worker is ending, and may have ended its other processes before.
      ::kill(-*started, SIGKILL);
      ::waitpid(*started, nullptr, 0);
      return {};
    }
    return [weak, started = std::move(started)] {
      if (const auto self = weak.lock(); self && !*self->closed) self->on_started(started);
    };
  });
}

void HealthCheck::Impl::on_started(Result<pid_t> started) {
  if (!started) {
    if (!timed_out) report(CheckResult::End::kNotStarted, 0, started.error().message);
    return finish();
  }
  pid = *started;
  const auto watched = children.watch(*pid, [weak = weak_from_this()](ExitStatus status) {
    if (const auto self = weak.lock(); self && !*self->closed) self->on_exit(status);
  });
  if (!watched) {
    ::kill(-*pid, SIGKILL);
    if (!timed_out) report(CheckResult::End::kNotStarted, 0, watched.error().message);
    return finish();
  }
  if (timed_out) children.signal(*pid, SIGKILL);
}

void HealthCheck::Impl::on_timeout() {
  timer = 0;
  timed_out = true;
  run->drain();
  report(CheckResult::End::kTimedOut, 0);
  if (pid) children.signal(*pid, SIGKILL);
}

void HealthCheck::Impl::on_exit(ExitStatus status) {
  if (!timed_out) {
    run->drain();
    const bool signaled = status.signal != 0;
    report(signaled ? CheckResult::End::kSignaled : CheckResult::End::kExited,
           signaled ? status.signal : status.exit_code);
  }
  finish();
}

// Ends the run and schedules the next one.
void HealthCheck::Impl::finish() {
  if (run) run->unwatch();
  run.reset();
  if (timer != 0) loop.cancel_timer(timer);
  timer = loop.add_timer(std::max(begun_at + options.interval, loop.now() + kPauseMin), [weak = weak_from_this()] {
    if (const auto self = weak.lock(); self && !*self->closed) self->begin();
  });
}

void HealthCheck::Impl::report(CheckResult::End end, int code, std::string error) {
  on_result({.program = options.program.filename().string(),
             .end = end,
             .code = code,
             .output = run ? run->text : "",
             .error = std::move(error),
             .timeout = options.timeout});
}

}  // namespace volador::worker
