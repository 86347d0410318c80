#include "runtime/actor/host_runtime.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "runtime/actor/actor_checkpoints.h"
#include "runtime/actor/actor_class.h"
#include "runtime/actor/actor_start.h"
#include "runtime/actor/call_runner.h"
#include "runtime/actor/cluster_session.h"
#include "runtime/actor/footprint.h"
#include "runtime/actor/health_checks.h"
#include "runtime/actor/host_answers.h"
#include "runtime/actor/host_lease.h"
#include "runtime/actor/math_threads.h"
#include "runtime/actor/metric_registry.h"
#include "runtime/actor/opening_calls.h"
#include "runtime/actor/self.h"
#include "runtime/actor/self_source.h"
#include "runtime/actor/shared_host.h"
#include "runtime/log.h"
#include "runtime/loop/event_loop.h"
#include "runtime/net/channel.h"
#include "runtime/net/fd_passing.h"
#include "runtime/protocol/host.pb.h"
#include "runtime/protocol/resource_map.h"
#include "runtime/security/credentials.h"
#include "runtime/security/revocations.h"
#include "runtime/security/tls_context.h"
#include "runtime/store/object_store.h"

namespace volador {
namespace {

constexpr int kExitWorkerGone = 70;
constexpr int kWorkerEndMs = 2000;  // Time in which a killed worker has closed all its sockets.
constexpr int kExitConstructorThrew = 71;
constexpr int kExitBadControl = 72;
constexpr int kExitUnhealthy = 73;
constexpr std::chrono::seconds kReportEvery{5};

std::optional<Self>& self_slot() {
  static auto* slot = new std::optional<Self>();
  return *slot;
}

// Set before the socket is created; removed at exit, except on a signal (then the worker removes it).
std::string& socket_path() {
  static auto* path = new std::string();
  return *path;
}

// Created by prepare_for_hosts: CAF's system queries network interfaces and files, which takes 0.2 ms.
std::unique_ptr<LoopSystem>& prepared_loops() {
  static auto* loops = new std::unique_ptr<LoopSystem>();
  return *loops;
}

std::unique_ptr<LoopSystem> make_loops() { return std::make_unique<LoopSystem>(1); }

// Ends the process without static destructors, since other threads are still running.
[[noreturn]] void leave(int code, const std::function<void()>& last = {}) {
  if (!socket_path().empty()) unlink(socket_path().c_str());
  std::fflush(stdout);
  std::fflush(stderr);
  if (last) last();
  _exit(code);
}

class Host final : public CallRunner::Actor {
 public:
  Host(net::UniqueFd control, net::UniqueFd lease_page) : control_(std::move(control)) {
    if (lease_page) {
      void* mapped = mmap(nullptr, sizeof(LeasePage), PROT_READ, MAP_SHARED, lease_page.get(), 0);
      VOLADOR_CHECK(mapped != MAP_FAILED);
      const auto* page = static_cast<const LeasePage*>(mapped);
      VOLADOR_CHECK(page->magic == LeasePage::kMagic);
      lease_.set_page(page);
    }
  }

  // Steps that need no actor. Failures are retried at HostStart, where they can be reported.
  void prepare() {
    if (make_threads("actor")) first_ = footprint();
  }

  [[noreturn]] void run() {
    while (true) {
      auto message = net::recv_message(control_.get());
      if (!message) leave(message.error().code == ErrorCode::kUnavailable ? kExitWorkerGone : kExitBadControl);
      protocol::ToHost command;
      if (!command.ParseFromString(message->bytes)) leave(kExitBadControl);
      switch (command.kind_case()) {
        case protocol::ToHost::kStart:
          start(command.start());
          break;
        case protocol::ToHost::kRelayed:
          if (session_) session_->on_message(command.relayed());
          break;
        case protocol::ToHost::kEnd:
          if (shared_ && !command.host_id().empty()) {
            shared_->end(id_from_raw<HostId>(command.host_id()), std::chrono::milliseconds(command.end().grace_ms()));
          } else {
            end();
          }
          break;
        case protocol::ToHost::kAdopt:
          if (net::CallServer* server = server_; server != nullptr && message->fds.size() == 1) {
            server->adopt(std::move(message->fds[0]),
                          [this, connection = command.adopt().connection()] { say_proved(connection); });
          }
          break;
        case protocol::ToHost::kCertificate:
          renew(command.certificate());
          break;
        case protocol::ToHost::kRevoked:
          revoke(command.revoked());
          break;
        case protocol::ToHost::kReadStacks:
          answer_later(command.host_id(), [this, asked = command.read_stacks()](protocol::FromHost& answer) {
            *answer.mutable_stacks() = read_stacks(asked, clock_);
          });
          break;
        case protocol::ToHost::kReadTimeline:
          answer_later(command.host_id(), [this, asked = command.read_timeline()](protocol::FromHost& answer) {
            *answer.mutable_timeline() = read_timeline(asked, clock_);
          });
          break;
        default:
          break;
      }
    }
  }

 private:
  void send(const protocol::FromHost& message) {
    const auto sent = net::send_message(control_.get(), message.SerializeAsString());
    if (!sent) log::warn("host", "the worker cannot be told", {{"error", sent.error().message}});
  }

  // The object store is part of the worker. If the worker is gone, this process ends, as at the end of its control
  // socket, before user code could report the loss of the store as an error of its own call, which would count as a
  // reply.
  void end_with_worker() const {
    pollfd wait{control_.get(), POLLRDHUP, 0};
    if (::poll(&wait, 1, kWorkerEndMs) == 1) leave(kExitWorkerGone);
  }

  // Runs on the I/O loop, so without waiting. If it is not sent, the worker closes the connection after a while and the
  // caller reconnects.
  void say_proved(uint64_t connection) {
    protocol::FromHost proved;
    proved.mutable_proved()->set_connection(connection);
    (void)net::send_message(control_.get(), proved.SerializeAsString(), {}, std::chrono::milliseconds(0));
  }

  // Runs on a separate thread, so that end requests are not delayed.
  void answer_later(const std::string& host, std::function<void(protocol::FromHost&)> question) {
    std::thread([this, host, question = std::move(question)] {
      protocol::FromHost answer;
      answer.set_host_id(host);
      question(answer);
      send(answer);
    }).detach();
  }

  void fail(protocol::DeathCause::Kind kind, const std::string& message) {
    protocol::FromHost failed;
    failed.mutable_failed()->mutable_cause()->set_kind(kind);
    failed.mutable_failed()->mutable_cause()->set_message(message);
    failed.mutable_failed()->mutable_cause()->set_pid(getpid());
    send(failed);
  }

  void start(const protocol::HostStart& start) {
    if (shared_) return shared_->start(start);
    if (actor_loop_) return;                           // Repeated message.
    enter_host_environment(start.env(), start.cwd());  // All existing threads are idle.
    start_ = start;
    actor_id_ = id_from_raw<ActorId>(start_.start().spec().actor_id());
    const protocol::ActorSpec& spec = start_.start().spec();
    if (const auto made = make_threads(spec.class_name()); !made) {
      fail(protocol::DeathCause::START_FAILED, made.error().message);
      leave(kExitConstructorThrew);
    }
    if (start_.shared_host_id().empty()) {
      self_slot() = self_of(start_, start_.scratch_dir());
      math_threads_ = math_threads_of(spec);
      actor_loop_ = std::move(prepared_loop_);
      actor_loop_->set_interrupt([io = io_.get()] { io->interrupt(); });
    }
    prepared_loop_.reset();
    if (!start_.certificate_pem().empty()) {
      auto tls = security::TlsContext::create({start_.certificate_pem(), start_.key_pem(), start_.authority_pem()});
      if (tls) {
        tls_ = std::move(*tls);
        revoke(start_.revoked());
      } else {
        log::warn("host", "no calls from other machines: the host's certificate does not work",
                  {{"error", tls.error().message}});
      }
    }
    open_session();
    if (actor_loop_) {
      if (!first_) first_ = footprint();
      actor_loop_->post([this] { construct(); });
    } else {
      start_shared();
    }
  }

  // Keeps existing threads.
  Result<void> make_threads(const std::string& loop_name) {
    if (!loops_) loops_ = prepared_loops() ? std::move(prepared_loops()) : make_loops();
    if (!prepared_loop_) prepared_loop_ = std::make_unique<EventLoop>(*loops_, loop_name, EventLoop::Thread::kOwn);
    if (io_) return {};
    auto io = net::IoLoop::create("volador-io");
    if (!io) return make_error(std::move(io).error());
    io_ = std::move(*io);
    return {};
  }

  void open_session() {
    const protocol::ActorSpec& spec = start_.start().spec();
    ClusterSessionOptions options;
    options.loop = io_.get();
    options.clock = &clock_;
    options.random = &random_;
    options.send = [this](const protocol::ClientMessage& message) {
      protocol::FromHost relay;
      *relay.mutable_relay() = message;
      relay.set_host_id(message.from_host());
      relay.mutable_relay()->clear_from_host();
      send(relay);
    };
    options.connect_here = [this](const std::string& unix_path, net::ConnectionOptions connection,
                                  std::function<void(Error)> on_down) {
      net::CallServer* server = server_;
      const bool here = server != nullptr && unix_path == socket_path();
      return here ? server->connect_here(std::move(connection), std::move(on_down)) : nullptr;
    };
    if (!actor_loop_) options.asking_host = &SharedHost::running_host;
    if (actor_loop_) options.own_host = start_.start().host_id();
    options.driver = id_from_raw<DriverId>(spec.driver_id());
    options.machine_id = start_.machine_id();
    options.node_name = start_.node_name();
    options.program_sha256 = spec.program_sha256();
    options.tls = tls_;
    options.store_path = start_.store_socket();
    options.on_store_lost = [this] { end_with_worker(); };
    options.who = actor_loop_
                      ? fmt::format("actor {} {}", spec.class_name(), short_id(id_from_raw<ActorId>(spec.actor_id())))
                      : fmt::format("shared host, pid {}", getpid());
    session_ = std::make_shared<ClusterSession>(std::move(options));
    Session::set_current(session_);
    if (actor_loop_) LedLoop::install(io_.get());
    process_ = {.loops = loops_.get(), .lease = &lease_, .clock = &clock_, .session = session_, .io = io_.get()};
  }

  // Shared host: opens the socket before the first actor.
  void start_shared() {
    shared_ = std::make_unique<SharedHost>(start_, process_, *io_,
                                           [this](const protocol::FromHost& message) { send(message); });
    net::ServerOptions server;
    server.calls_max = SharedHost::kCallsMax;
    server.calls_first = server.calls_least = SharedHost::kCallsLeast;
    server.bytes_max = SharedHost::kCallBytesMax;
    auto opened =
        open_server(server, id_from_raw<HostId>(start_.shared_host_id()),
                    net::each_call([this](net::CallRequest&& request, std::shared_ptr<net::Responder>&& responder) {
                      shared_->on_call(std::move(request), std::move(responder));
                    }));
    if (!opened) {
      fail(protocol::DeathCause::START_FAILED, opened.error().message);
      leave(kExitConstructorThrew);
    }
    shared_->start(start_);
    io_->post([this] { report_later(); });
  }

  Result<void> open_server(net::ServerOptions server, HostId id, net::CallHandler handler) {
    server.unix_path = fmt::format("{}/{}.sock", start_.socket_dir(), to_string(id).substr(0, 16));
    server.tls = tls_;
    socket_path() = server.unix_path;
    auto created = net::CallServer::create(*io_, server, std::move(handler));
    if (!created) return make_error(std::move(created).error());
    server_owner_ = std::move(*created);
    server_ = server_owner_.get();
    return {};
  }

  void revoke(const protocol::RevokedTokens& tokens) {
    if (!tls_) return;
    for (const std::string& id : tokens.token_ids()) tls_->revocations().revoke_token(id);
    if (net::CallServer* server = server_; server != nullptr) server->check_peers();
  }

  void renew(const protocol::HostCertificate& certificate) {
    if (!tls_) return;
    const auto renewed =
        tls_->reload({certificate.certificate_pem(), certificate.key_pem(), certificate.authority_pem()});
    if (!renewed)
      log::warn("host", "a renewed certificate does not work; the old one stays", {{"error", renewed.error().message}});
  }

  // On the actor's thread.
  void construct() {
    set_math_threads(math_threads_);
    const protocol::ActorSpec& spec = start_.start().spec();
    const auto found = ActorClassRegistry::instance().load(spec.class_name(), spec.arguments());
    if (!found) {
      fail(protocol::DeathCause::START_FAILED, found.error().message);
      leave(kExitConstructorThrew);
    }
    class_ = *found;
    auto made = make_object(*class_, spec.arguments());
    if (!made) {
      fail(protocol::DeathCause::CONSTRUCTOR_THREW, made.error().message);
      leave(kExitConstructorThrew);
    }
    object_ = std::move(*made);
    if (const auto restored = prepare_checkpoints(); !restored) {
      fail(protocol::DeathCause::CONSTRUCTOR_THREW, "load_checkpoint: " + restored.error().message);
      leave(kExitConstructorThrew);
    }

    make_runner();
    run_opening(*runner_, spec, start_.start().epoch());
    net::ServerOptions options;
    options.give_back = [this] { runner_->give_back(); };
    const auto opened = open_server(
        std::move(options), id_from_raw<HostId>(start_.start().host_id()), [this](std::span<net::IncomingCall> calls) {
          for (net::IncomingCall& call : calls) {
            if (auto checked = check_target(*call.request); !checked)
              std::exchange(call.responder, nullptr)->reply(make_error(std::move(checked).error()));
          }
          runner_->on_calls(calls);
        });
    if (!opened) {
      fail(protocol::DeathCause::START_FAILED, opened.error().message);
      leave(kExitConstructorThrew);
    }
    send(ready_message(start_, socket_path()));
    io_->post([this] { report_later(); });
    health_ = HealthChecks::start(spec, *class_,
                                  {.io = io_.get(),
                                   .clock = &clock_,
                                   .lease = &lease_,
                                   .run = [this](CallRunner::Check check) { runner_->check(std::move(check)); },
                                   .unhealthy =
                                       [this](const std::string& why) {
                                         fail(protocol::DeathCause::UNHEALTHY, why);
                                         leave(kExitUnhealthy);
                                       }});
  }

  // Periodic reports for watchers of the actor; on the I/O thread.
  void report_later() {
    io_->add_timer(clock_.now() + kReportEvery, [this] {
      report_metrics();
      const uint64_t calls = tally_.calls.load(std::memory_order_relaxed);
      if (calls != counted_) {
        counted_ = calls;
        protocol::FromHost message;
        message.mutable_calls()->set_calls(calls);
        message.mutable_calls()->set_busy_ns(static_cast<uint64_t>(tally_.busy_ns.load(std::memory_order_relaxed)));
        send(message);
      }
      report_later();
    });
  }
  void report_metrics() {
    for (protocol::ActorMetrics& metrics : MetricRegistry::instance().take_changed()) {
      protocol::FromHost message;
      if (shared_) {
        const auto incarnation = shared_->incarnation_of(id_from_raw<ActorId>(metrics.actor_id()));
        if (!incarnation) continue;
        message.set_host_id(raw(*incarnation));
      }
      *message.mutable_metrics() = std::move(metrics);
      send(message);
    }
  }

  void make_runner() {
    const protocol::ActorSpec& spec = start_.start().spec();
    CallRunner::Options options;
    options.actor_class = class_;
    options.object = object_;
    options.process = &process_;
    options.actor = this;
    options.id = id_from_raw<ActorId>(spec.actor_id());
    options.first_thread = actor_loop_.get();
    options.max_concurrency = std::max(1, spec.max_concurrency());
    options.groups.assign(spec.concurrency_groups().begin(), spec.concurrency_groups().end());
    options.keeps_answers = spec.max_task_retries() != 0 || !spec.opening().empty();
    options.math_threads = math_threads_;
    options.checkpoints = checkpoints_.get();
    options.tally = &tally_;
    runner_ = std::make_unique<CallRunner>(std::move(options));
  }

  Result<void> prepare_checkpoints() {
    if (!keeps_checkpoints(start_, *class_)) return {};
    const protocol::StartHost& start = start_.start();
    const protocol::ActorSpec& spec = start.spec();
    checkpoints_ = std::make_unique<ActorCheckpoints>(
        *class_, object_,
        ActorCheckpoints::Options{.calls = spec.checkpoint_calls(),
                                  .interval = std::chrono::milliseconds(spec.checkpoint_interval_ms()),
                                  .epoch = start.epoch(),
                                  .scratch = start_.scratch_dir()},
        [this](std::chrono::nanoseconds delay, std::function<void()> function) {
          io_->add_timer(clock_.now() + delay, [this, function = std::move(function)] { actor_loop_->post(function); });
        },
        [session = session_](protocol::Checkpoint checkpoint, std::function<void(Result<void>)> done) {
          session->keep_checkpoint(std::move(checkpoint), std::move(done));
        });
    if (!start.has_checkpoint()) return {};
    const auto restored = checkpoints_->restore(start.checkpoint().archive());
    start_.mutable_start()->clear_checkpoint();  // It may be large.
    return restored;
  }

  // The call addresses another incarnation or another actor.
  Result<void> check_target(const net::CallRequest& request) const {
    const protocol::StartHost& start = start_.start();
    if (request.actor == actor_id_ && request.epoch == start.epoch()) return {};
    return make_error(other_target(start_, request.actor, request.epoch));
  }

  void exit() override {
    // The head reports the end, so that it is permanent and known everywhere.
    constexpr std::chrono::seconds kDestructor{10};
    const auto ended = session_->kill(self_slot()->id, true, kDestructor);
    if (!ended)
      log::warn("host", "exit_actor: the head cannot be told; the actor lives on", {{"error", ended.error().message}});
  }
  Error exit_error() const override { return exit_error_of(self_slot()->class_name, self_slot()->id); }

  // On the control thread. The destructor runs on the actor's thread after the current call; the worker kills this
  // process if that takes too long.
  void end() {
    if (!actor_loop_) leave(0);
    if (ending_) return;
    ending_ = true;
    actor_loop_->post([this] {
      if (health_) io_->run([this] { health_->stop(); });  // Stops giving checks to the runner.
      if (server_owner_) server_owner_->close();
      guarded([&]() -> Result<std::string> {
        runner_.reset();  // After running calls on the other threads.
        checkpoints_.reset();
        object_.reset();
        return std::string();
      });
      leave(0, [this] {
        if (!leaves_little()) return;
        protocol::FromHost ended;
        ended.mutable_ended();
        send(ended);
      });
    });
  }

  // Whether a successor process may start before the kernel has torn this one down. It has to wait for a port, a lock
  // or much memory.
  bool leaves_little() const {
    constexpr int64_t kLittleBytes = int64_t{64} << 20;
    const auto last = footprint();
    return first_ && last && last->descriptors <= first_->descriptors &&
           last->memory_bytes <= first_->memory_bytes + kLittleBytes;
  }

  net::UniqueFd control_;
  SystemClock clock_;
  HostLease lease_{clock_};
  SystemRandom random_;
  protocol::HostStart start_;
  ActorId actor_id_;  // Id from start_.
  int math_threads_ = 1;
  CallRunner::CallStats tally_;
  uint64_t counted_ = 0;  // Number of calls last reported.
  bool ending_ = false;
  std::optional<Footprint> first_;  // Footprint before the actor was constructed.
  std::unique_ptr<LoopSystem> loops_;
  std::unique_ptr<net::IoLoop> io_;
  std::shared_ptr<security::TlsContext> tls_;
  std::shared_ptr<ClusterSession> session_;
  CallRunner::Process process_;
  std::unique_ptr<SharedHost> shared_;  // Null: dedicated to one actor.
  std::unique_ptr<net::CallServer> server_owner_;
  std::atomic<net::CallServer*> server_{nullptr};
  const ActorClass* class_ = nullptr;
  std::shared_ptr<void> object_;
  std::unique_ptr<ActorCheckpoints> checkpoints_;
  std::unique_ptr<EventLoop> prepared_loop_;  // Until HostStart assigns it.
  std::unique_ptr<EventLoop> actor_loop_;
  std::unique_ptr<CallRunner> runner_;
  std::shared_ptr<HealthChecks> health_;  // Null: no health check.
};

}  // namespace

const Self& self() {
  if (internal::current_self != nullptr) return internal::current_self->self();
  if (!self_slot())
    throw Exception(
        Error{ErrorCode::kUnavailable, "volador::self() has a meaning inside an actor only; this process is a driver"});
  return *self_slot();
}

bool is_inside_actor() { return internal::current_self != nullptr || self_slot().has_value(); }

void enter_host_environment(const google::protobuf::Map<std::string, std::string>& env, const std::string& cwd) {
  for (const auto& [name, value] : env) setenv(name.c_str(), value.c_str(), 1);
  if (!cwd.empty() && chdir(cwd.c_str()) != 0) {
    std::fprintf(stderr, "volador: cannot enter the working directory %s: %s\n", cwd.c_str(), std::strerror(errno));
  }
}

void prepare_for_hosts() {
  prepared_loops() = make_loops();
  find_math_libraries();
}

void run_host(net::UniqueFd control, net::UniqueFd lease_page, bool ahead) {
  // Ctrl-C in the driver's terminal concerns the driver; the worker ends hosts.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGTERM, SIG_DFL);
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // Orphans of user code are reparented to the worker only when this host has ended.
  setvbuf(stdout, nullptr, _IOLBF, 0);
  Host* host = new Host(std::move(control), std::move(lease_page));  // Never destroyed: the process ends by _exit.
  if (ahead) host->prepare();
  host->run();
}

}  // namespace volador
