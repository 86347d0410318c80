#include "worker/hosts/template_pool.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <deque>

#include "runtime/log.h"
#include "runtime/net/fd_passing.h"
#include "runtime/protocol/host.pb.h"
#include "worker/logs/log_capture.h"

namespace volador::worker {
namespace {

using std::chrono::milliseconds;

std::string quoted_name(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

constexpr const char* kBindNow = "LD_BIND_NOW";  // Read by ld.so.

}  // namespace

struct TemplatePool::Request {
  HostFork host;
  Done done;
};

// State of one program: its template process, if any, and pending requests.
struct TemplatePool::Template final : net::Pollable, std::enable_shared_from_this<TemplatePool::Template> {
  enum class Phase : uint8_t { kEnded, kStarting, kHeld, kExec };
  struct InFlight {
    BootTime sent;
    Done done;
  };

  TemplatePool* pool = nullptr;
  ProgramStart program;
  Phase phase = Phase::kEnded;
  pid_t pid = 0;
  net::UniqueFd socket;
  std::unique_ptr<LogCapture> output;
  std::deque<Request> waiting;
  std::map<HostId, InFlight> in_flight;
  net::IoLoop::TimerId timer = 0;  // For Held, the answer of a fork, or idleness: one of them at a time.
  net::IoLoop::TimerId retry = 0;
  int failures = 0;  // Consecutive ends before Held.
  BootTime not_before{};
  std::optional<Error> last_failure;
  std::string last_tail;
  BootTime last_used{};
  std::optional<BootTime> ends_at;  // Set while it is idle.
  bool binds_for_hosts = false;     // kBindNow was set by the pool, not by the user.
  bool makes_spares = false;

  void on_events(uint32_t) override {
    if (pool != nullptr) pool->on_message(shared_from_this());
  }
  void set_timer(milliseconds delay, void (Template::*then)()) {
    stop_timer();
    timer = pool->loop_.add_timer(pool->loop_.now() + delay, [self = shared_from_this(), then] {
      self->timer = 0;
      if (self->pool != nullptr) (self.get()->*then)();
    });
  }
  void stop_timer() {
    if (timer != 0) pool->loop_.cancel_timer(std::exchange(timer, 0));
  }
  void held_late();
  void fork_late();
  void idle_long();
};

void TemplatePool::Template::held_late() {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(pool->options_.held_timeout).count();
  pool->count_failure(*this);
  pool->fail(shared_from_this(),
             Error{ErrorCode::kInvalidArgument,
                   fmt::format("{} did not reach volador::init() within {} s on node {}; call it first in main",
                               quoted_name(program.path), seconds, pool->options_.node_name)});
  pool->end(shared_from_this());
}

void TemplatePool::Template::fork_late() {
  log::warn("worker", "a template does not answer and is ended", {{"pid", pid}, {"program", program.path}});
  pool->fail(shared_from_this(), Error{ErrorCode::kUnavailable,
                                       fmt::format("the template of {} does not answer", quoted_name(program.path))});
  pool->end(shared_from_this());
}

void TemplatePool::Template::idle_long() { pool->end(shared_from_this()); }

TemplatePool::TemplatePool(net::IoLoop& loop, Children& children, int lease_page, TemplateOptions options)
    : loop_(loop), children_(children), lease_page_(lease_page), options_(std::move(options)) {}

TemplatePool::~TemplatePool() {
  for (const auto& [key, each] : templates_) {
    each->stop_timer();
    if (each->retry != 0) loop_.cancel_timer(each->retry);
    if (each->socket) loop_.unwatch(each->socket.get());
    each->pool = nullptr;
    if (each->pid != 0) children_.signal(each->pid, SIGKILL);
  }
}

void TemplatePool::fork(const ProgramStart& program, HostFork host, Done done) {
  auto& held = templates_[program];
  if (!held) {
    held = std::make_shared<Template>();
    held->pool = this;
    held->program = program;
  }
  held->last_used = loop_.now();
  Request request{std::move(host), std::move(done)};
  if (held->phase == Template::Phase::kExec) return exec(held, std::move(request));
  if (held->phase == Template::Phase::kEnded && loop_.now() < held->not_before &&
      held->failures >= options_.crash_loop && held->last_failure) {
    return request.done(tl::unexpected(
        Failure{Error{held->last_failure->code,
                      fmt::format("{} (failed {} times in a row; the next try is in {} ms at the earliest)",
                                  held->last_failure->message, held->failures,
                                  std::chrono::ceil<milliseconds>(held->not_before - loop_.now()).count())},
                held->last_tail}));
  }
  held->waiting.push_back(std::move(request));
  if (held->phase == Template::Phase::kHeld) return serve(held);
  if (held->phase != Template::Phase::kEnded || held->retry != 0) return;
  if (loop_.now() >= held->not_before) return start(held);
  held->retry = loop_.add_timer(held->not_before, [this, held] {
    held->retry = 0;
    if (held->pool != nullptr && held->phase == Template::Phase::kEnded && !held->waiting.empty()) start(held);
  });
}

bool TemplatePool::can_make_spare(const ProgramStart& program) const {
  const auto found = templates_.find(program);
  if (found == templates_.end()) return false;
  const Template& held = *found->second;
  return held.phase == Template::Phase::kHeld && held.makes_spares && held.waiting.empty() && held.in_flight.empty();
}

bool TemplatePool::cancel(HostId host) {
  for (const auto& [key, each] : templates_) {
    const auto found = std::find_if(each->waiting.begin(), each->waiting.end(),
                                    [&](const Request& request) { return request.host.host == host; });
    if (found == each->waiting.end()) continue;
    each->waiting.erase(found);
    return true;
  }
  return false;
}

std::optional<BootTime> TemplatePool::oldest_fork_in_flight() const {
  std::optional<BootTime> oldest;
  for (const auto& [key, each] : templates_) {
    for (const auto& [host, fork] : each->in_flight) {
      if (!oldest || fork.sent < *oldest) oldest = fork.sent;
    }
  }
  return oldest;
}

std::map<pid_t, TemplatePool::Process> TemplatePool::processes() const {
  std::map<pid_t, Process> found;
  for (const auto& [program, held] : templates_) {
    if (held->pid > 0) found[held->pid] = {quoted_name(program.path), held->ends_at};
  }
  return found;
}

void TemplatePool::start(const std::shared_ptr<Template>& held) {
  auto pair = net::seqpacket_pair();
  if (!pair) return fail(held, pair.error());
  held->output =
      std::make_unique<LogCapture>(loop_, nullptr, "", [program = quoted_name(held->program.path)](LogBatch batch) {
        for (const std::string& line : batch.lines) log::info("template", line, {{"program", program}});
      });
  auto pipes = held->output->open();
  if (!pipes) return fail(held, pipes.error());
  SpawnRequest request{
      .path = held->program.path, .argv = held->program.argv, .env = held->program.env, .cwd = held->program.cwd};
  request.env["VOLADOR_ROLE"] = "template";
  request.env["VOLADOR_CONTROL_FD"] = std::to_string(kFirstPassedFd);
  // Symbols are resolved once here and not again in every host.
  held->binds_for_hosts = request.env.emplace(kBindNow, "1").second;
  request.stdout_fd = pipes->out.get();
  request.stderr_fd = pipes->err.get();
  request.fds = {pair->second.get()};
  const auto pid = spawn(request);
  if (!pid) {
    count_failure(*held);
    return fail(held, pid.error());
  }
  held->pid = *pid;
  held->phase = Template::Phase::kStarting;
  held->socket = std::move(pair->first);
  const auto watched = children_.watch(*pid, [this, held, own = *pid](ExitStatus status) {
    if (held->pool != nullptr && held->pid == own) on_end(held, status);
  });
  const auto polled = loop_.watch(held->socket.get(), EPOLLIN, held);
  if (!watched || !polled) {
    fail(held, watched ? polled.error() : watched.error());
    return end(held);
  }
  held->set_timer(options_.held_timeout, &Template::held_late);
  log::info("worker", "template started", {{"program", held->program.path}, {"pid", *pid}});
}

void TemplatePool::on_message(const std::shared_ptr<Template>& held) {
  for (int budget = 64; budget > 0 && held->socket; --budget) {
    auto message = net::try_recv_message(held->socket.get());
    if (!message) {  // It ended; its pidfd reports how.
      loop_.unwatch(held->socket.get());
      held->socket.reset();
      children_.signal(held->pid, SIGKILL);
      return;
    }
    if (!*message) return;
    protocol::FromTemplate said;
    if (!said.ParseFromString((*message)->bytes)) continue;
    if (said.has_held() && held->phase == Template::Phase::kStarting) {
      held->failures = 0;
      held->makes_spares = said.held().makes_spares();
      held->stop_timer();
      if (said.held().threads() > 1) {
        log::warn("worker", "program has threads before volador::init(): its hosts are started one by one, not forked",
                  {{"program", held->program.path}, {"threads", said.held().threads()}});
        auto waiting = std::exchange(held->waiting, {});
        end(held);
        held->phase = Template::Phase::kExec;
        for (Request& request : waiting) exec(held, std::move(request));
        return;
      }
      held->phase = Template::Phase::kHeld;
      serve(held);
      trim();
    } else if (said.has_forked()) {
      const auto found = held->in_flight.find(id_from_raw<HostId>(said.forked().host_id()));
      if (found == held->in_flight.end()) continue;
      Done done = std::move(found->second.done);
      held->in_flight.erase(found);
      held->last_used = loop_.now();
      if (said.forked().pid() > 0) {
        done(static_cast<pid_t>(said.forked().pid()));
      } else {
        done(tl::unexpected(Failure{
            Error{ErrorCode::kUnavailable, fmt::format("no process for the host: {}", said.forked().error())}, ""}));
      }
      serve(held);
    }
  }
}

void TemplatePool::serve(const std::shared_ptr<Template>& held) {
  while (held->phase == Template::Phase::kHeld && held->socket && !held->waiting.empty() &&
         held->in_flight.size() < options_.forks_in_flight) {
    Request request = std::move(held->waiting.front());
    held->waiting.pop_front();
    protocol::ToTemplate message;
    protocol::Fork& fork = *message.mutable_fork();
    fork.set_host_id(raw(request.host.host));
    for (const auto& [name, value] : request.host.env) (*fork.mutable_env())[name] = value;
    if (held->binds_for_hosts) fork.add_unset_env(kBindNow);
    fork.set_cwd(request.host.cwd);
    fork.set_spare(request.host.spare);
    const int fds[4] = {request.host.control.get(), request.host.out.get(), request.host.err.get(), lease_page_};
    const auto sent = net::send_message(held->socket.get(), message.SerializeAsString(), fds, milliseconds(1000));
    if (!sent) {
      held->waiting.push_front(std::move(request));
      fail(held, Error{ErrorCode::kUnavailable, "the template does not take requests: " + sent.error().message});
      return end(held);
    }
    held->in_flight[request.host.host] = {loop_.now(), std::move(request.done)};
  }
  if (held->phase != Template::Phase::kHeld) return;
  held->ends_at.reset();
  if (!held->in_flight.empty()) return held->set_timer(options_.fork_timeout, &Template::fork_late);
  held->ends_at = loop_.now() + options_.idle_max;
  held->set_timer(options_.idle_max, &Template::idle_long);
}

void TemplatePool::exec(const std::shared_ptr<Template>& held, Request request) {
  SpawnRequest start{
      .path = held->program.path, .argv = held->program.argv, .env = held->program.env, .cwd = held->program.cwd};
  for (const auto& [name, value] : request.host.env) start.env[name] = value;
  if (!request.host.cwd.empty()) start.cwd = request.host.cwd;
  start.env["VOLADOR_ROLE"] = "host";
  start.env["VOLADOR_CONTROL_FD"] = std::to_string(kFirstPassedFd);
  start.env["VOLADOR_LEASE_FD"] = std::to_string(kFirstPassedFd + 1);
  start.stdout_fd = request.host.out.get();
  start.stderr_fd = request.host.err.get();
  start.fds = {request.host.control.get(), lease_page_};
  const auto pid = spawn(start);
  if (pid)
    request.done(*pid);
  else
    request.done(tl::unexpected(Failure{pid.error(), ""}));
}

// Fails all queued and pending requests with this error. The process, if any, continues.
void TemplatePool::fail(const std::shared_ptr<Template>& held, const Error& error) {
  const std::string tail = held->output ? held->output->stderr_tail() : std::string();
  held->last_failure = error;
  held->last_tail = tail;
  auto waiting = std::exchange(held->waiting, {});
  auto in_flight = std::exchange(held->in_flight, {});
  for (auto& [host, fork] : in_flight) fork.done(tl::unexpected(Failure{error, tail}));
  for (Request& request : waiting) request.done(tl::unexpected(Failure{error, tail}));
}

// Kills the process: later requests start a new one.
void TemplatePool::end(const std::shared_ptr<Template>& held) {
  held->stop_timer();
  if (held->socket) loop_.unwatch(held->socket.get());
  held->socket.reset();
  held->phase = Template::Phase::kEnded;
  if (held->pid != 0) children_.signal(held->pid, SIGKILL);
}

void TemplatePool::count_failure(Template& held) {
  const auto doubled = options_.backoff_min * (1 << std::min(held.failures, 10));
  ++held.failures;
  held.not_before = loop_.now() + std::min<milliseconds>(doubled, options_.backoff_max);
}

void TemplatePool::on_end(const std::shared_ptr<Template>& held, const ExitStatus& status) {
  if (held->output) held->output->close();
  held->pid = 0;
  if (held->phase == Template::Phase::kExec) return;
  const Template::Phase phase = held->phase;
  end(held);
  if (phase == Template::Phase::kStarting) {
    count_failure(*held);
    const std::string how = status.signal != 0
                                ? fmt::format("was killed by signal {} ({})", status.signal, ::strsignal(status.signal))
                                : fmt::format("ended with code {}", status.exit_code);
    fail(held,
         Error{
             ErrorCode::kInvalidArgument,
             fmt::format(
                 "{} {} on node {} before it reached volador::init(); call it first in main and look at its last lines",
                 quoted_name(held->program.path), how, options_.node_name)});
  } else if (phase == Template::Phase::kHeld) {
    log::warn("worker", "a template ended",
              {{"program", held->program.path}, {"exit_code", status.exit_code}, {"signal", status.signal}});
    fail(held,
         Error{ErrorCode::kUnavailable, fmt::format("the template of {} ended", quoted_name(held->program.path))});
  } else if (held->failures == 0 && held->waiting.empty()) {
    templates_.erase(held->program);
  }
}

void TemplatePool::trim() {
  for (;;) {
    size_t count = 0;
    std::shared_ptr<Template> oldest;
    for (const auto& [key, each] : templates_) {
      if (each->phase != Template::Phase::kHeld) continue;
      ++count;
      if (each->in_flight.empty() && each->waiting.empty() && (!oldest || each->last_used < oldest->last_used))
        oldest = each;
    }
    if (count <= options_.templates_max || !oldest) return;
    end(oldest);
  }
}

}  // namespace volador::worker
