#include "runtime/actor/host_runtime.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>

#include "runtime/actor/actor_checkpoints.h"
#include "runtime/actor/actor_class.h"
#include "runtime/actor/call_runner.h"
#include "runtime/actor/cluster_session.h"
#include "runtime/actor/host_lease.h"
#include "runtime/actor/math_threads.h"
#include "runtime/actor/self.h"
#include "runtime/log.h"
#include "runtime/loop/event_loop.h"
#include "runtime/net/channel.h"
#include "runtime/net/fd_passing.h"
#include "runtime/protocol/host.pb.h"
#include "runtime/protocol/resource_map.h"
#include "runtime/security/credentials.h"
#include "runtime/security/tls_context.h"
#include "runtime/store/object_store.h"

namespace volador {
namespace {

constexpr int kExitWorkerGone = 70;
constexpr int kExitConstructorThrew = 71;
constexpr int kExitBadControl = 72;

std::optional<Self>& self_slot() {
  static auto* slot = new std::optional<Self>();
  return *slot;
}

// Set before the socket is made; removed at the end, whatever ends us but a signal (then the worker does it).
std::string& socket_path() {
  static auto* path = new std::string();
  return *path;
}

// Ends the process without running static destructors: other threads still run.
[[noreturn]] void leave(int code) {
  if (!socket_path().empty()) unlink(socket_path().c_str());
  std::fflush(stdout);
  std::fflush(stderr);
  _exit(code);
}

class Host {
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

  [[noreturn]] void run() {
    while (true) {
      auto message = net::recv_message(control_.get());
      if (!message) leave(message.error().code == ErrorCode::kUnavailable ? kExitWorkerGone : kExitBadControl);
      protocol::ToHost command;
      if (!command.ParseFromString(message->bytes)) leave(kExitBadControl);
      switch (command.kind_case()) {
        case protocol::ToHost::kStart: start(command.start()); break;
        case protocol::ToHost::kRelayed:
          if (session_) session_->on_message(command.relayed());
          break;
        case protocol::ToHost::kEnd: end(); break;
        case protocol::ToHost::kAdopt:
          if (net::CallServer* server = server_; server != nullptr && message->fds.size() == 1) server->adopt(std::move(message->fds[0]));
          break;
        case protocol::ToHost::kCertificate:
          renew(command.certificate());
          break;
        default: break;
      }
    }
  }

 private:
  void send(const protocol::FromHost& message) {
    const auto sent = net::send_message(control_.get(), message.SerializeAsString());
    if (!sent) log::warn("host", "the worker cannot be told", {{"error", sent.error().message}});
  }

  void fail(protocol::DeathCause::Kind kind, const std::string& message) {
    protocol::FromHost failed;
    failed.mutable_failed()->mutable_cause()->set_kind(kind);
    failed.mutable_failed()->mutable_cause()->set_message(message);
    failed.mutable_failed()->mutable_cause()->set_pid(getpid());
    send(failed);
  }

  void start(const protocol::HostStart& start) {
    if (actor_loop_) return;  // Repeated.
    start_ = start;
    const protocol::ActorSpec& spec = start_.start().spec();

    Self self;
    self.id = id_from_raw<ActorId>(spec.actor_id());
    self.epoch = start_.start().epoch();
    self.restarts = start_.start().restarts();
    self.name = spec.name();
    self.class_name = spec.class_name();
    self.node = id_from_raw<NodeId>(start_.node_id());
    self.node_name = start_.node_name();
    self.resources = resources_of(spec.resources());
    self.gpus.assign(start_.start().gpus().begin(), start_.start().gpus().end());
    self.scratch_directory = start_.scratch_dir();
    self_slot() = self;
    math_threads_ = static_cast<int>(self.resources.get("cpus") / kUnit);

    loops_ = std::make_unique<LoopSystem>(1);
    actor_loop_ = std::make_unique<EventLoop>(*loops_, self.class_name, EventLoop::Thread::kOwn);
    auto io = net::IoLoop::create("volador-io");
    if (!io) {
      fail(protocol::DeathCause::START_FAILED, io.error().message);
      leave(kExitConstructorThrew);
    }
    io_ = std::move(*io);
    if (!start_.certificate_pem().empty()) {
      auto tls = security::TlsContext::create({start_.certificate_pem(), start_.key_pem(), start_.authority_pem()});
      if (tls) {
        tls_ = std::move(*tls);
      } else {
        log::warn("host", "no calls from other machines: the host's certificate does not work", {{"error", tls.error().message}});
      }
    }

    ClusterSessionOptions options;
    options.loop = io_.get();
    options.clock = &clock_;
    options.random = &random_;
    options.send = [this](const protocol::ClientMessage& message) {
      protocol::FromHost relay;
      *relay.mutable_relay() = message;
      send(relay);
    };
    options.driver = id_from_raw<DriverId>(spec.driver_id());
    options.machine_id = start_.machine_id();
    options.node_name = start_.node_name();
    options.program_sha256 = spec.program_sha256();
    options.tls = tls_;
    options.store_path = start_.store_socket();
    options.who = fmt::format("actor {} {}", self.class_name, short_id(self.id));
    session_ = std::make_shared<ClusterSession>(std::move(options));
    Session::set_current(session_);

    actor_loop_->post([this] { construct(); });
  }

  void renew(const protocol::HostCertificate& certificate) {
    if (!tls_) return;
    const auto renewed = tls_->reload({certificate.certificate_pem(), certificate.key_pem(), certificate.authority_pem()});
    if (!renewed) log::warn("host", "a renewed certificate does not work; the old one stays", {{"error", renewed.error().message}});
  }

  // On the actor's thread.
  void construct() {
    set_math_threads(math_threads_);
    const protocol::ActorSpec& spec = start_.start().spec();
    const ActorClass* actor_class = ActorClassRegistry::instance().find(spec.class_name());
    if (actor_class == nullptr) {
      fail(protocol::DeathCause::START_FAILED,
           fmt::format("the program has no actor class \"{}\"; it has: {}", spec.class_name(), fmt::join(ActorClassRegistry::instance().names(), ", ")));
      leave(kExitConstructorThrew);
    }
    const auto made = guarded([&]() -> Result<std::string> {
      Decoder decoder(spec.arguments());
      decoder.array();
      decoder.unsigned_integer();
      const uint64_t constructor = decoder.unsigned_integer();
      const auto found = actor_class->constructors.find(constructor);
      if (decoder.failed() || found == actor_class->constructors.end()) {
        return make_error(ErrorCode::kInvalidArgument, fmt::format("class {} has no such constructor in this program", spec.class_name()));
      }
      auto object = found->second(spec.arguments());
      if (!object) return make_error(std::move(object).error());
      object_ = std::move(*object);
      return std::string();
    });
    if (!made) {
      fail(protocol::DeathCause::CONSTRUCTOR_THREW, made.error().message);
      leave(kExitConstructorThrew);
    }
    class_ = actor_class;
    if (const auto restored = prepare_checkpoints(); !restored) {
      fail(protocol::DeathCause::CONSTRUCTOR_THREW, "load_checkpoint: " + restored.error().message);
      leave(kExitConstructorThrew);
    }

    const auto host_id = id_from_raw<HostId>(start_.start().host_id());
    net::ServerOptions server;
    server.unix_path = fmt::format("{}/{}.sock", start_.socket_dir(), to_string(host_id).substr(0, 16));
    server.tls = tls_;
    socket_path() = server.unix_path;
    make_runner();
    auto created = net::CallServer::create(*io_, server, [this](net::CallRequest request, std::shared_ptr<net::Responder> responder) {
      if (auto checked = check_target(request); !checked) return responder->reply(make_error(std::move(checked).error()));
      runner_->on_call(std::move(request), std::move(responder));
    });
    if (!created) {
      fail(protocol::DeathCause::START_FAILED, created.error().message);
      leave(kExitConstructorThrew);
    }
    server_owner_ = std::move(*created);
    server_ = server_owner_.get();

    protocol::FromHost message;
    auto& ready = *message.mutable_ready();
    ready.set_host_id(start_.start().host_id());
    ready.set_actor_id(spec.actor_id());
    ready.set_epoch(start_.start().epoch());
    ready.set_ready(true);
    ready.set_pid(getpid());
    ready.mutable_address()->set_host_id(start_.start().host_id());
    ready.mutable_address()->set_machine_id(start_.machine_id());
    ready.mutable_address()->set_unix_path(server.unix_path);
    ready.mutable_address()->set_tcp_address(start_.data_address());
    send(message);
  }

  void make_runner() {
    const protocol::ActorSpec& spec = start_.start().spec();
    CallRunner::Options options;
    options.actor_class = class_;
    options.object = object_;
    options.loops = loops_.get();
    options.first_thread = actor_loop_.get();
    options.max_concurrency = std::max(1, spec.max_concurrency());
    options.groups.assign(spec.concurrency_groups().begin(), spec.concurrency_groups().end());
    options.keeps_answers = spec.max_task_retries() != 0;
    options.math_threads = math_threads_;
    options.lease = &lease_;
    options.clock = &clock_;
    options.checkpoints = checkpoints_.get();
    options.session = session_;
    runner_ = std::make_unique<CallRunner>(std::move(options));
  }

  Result<void> prepare_checkpoints() {
    const protocol::StartHost& start = start_.start();
    const protocol::ActorSpec& spec = start.spec();
    const bool saves = class_->save_checkpoint && (spec.checkpoint_calls() > 0 || spec.checkpoint_interval_ms() > 0);
    if (!saves && !start.has_checkpoint()) return {};
    checkpoints_ = std::make_unique<ActorCheckpoints>(
        *class_, object_,
        ActorCheckpoints::Options{.calls = spec.checkpoint_calls(),
                                  .interval = std::chrono::milliseconds(spec.checkpoint_interval_ms()),
                                  .epoch = start.epoch(),
                                  .scratch = start_.scratch_dir()},
        *actor_loop_, [session = session_](protocol::Checkpoint checkpoint, std::function<void(Result<void>)> done) {
          session->keep_checkpoint(std::move(checkpoint), std::move(done));
        });
    if (!start.has_checkpoint()) return {};
    const auto restored = checkpoints_->restore(start.checkpoint().archive());
    start_.mutable_start()->clear_checkpoint();  // It may be large.
    return restored;
  }

  // The actor is not what the call is for: an older incarnation, or another one.
  Result<void> check_target(const net::CallRequest& request) const {
    const protocol::StartHost& start = start_.start();
    if (raw(request.actor) == start.spec().actor_id() && request.epoch == start.epoch()) return {};
    return make_error(ErrorCode::kUnavailable, fmt::format("this host runs actor {} at epoch {}, the call is for {} at epoch {}", short_id(id_from_raw<ActorId>(start.spec().actor_id())),
                                                           start.epoch(), short_id(request.actor), request.epoch));
  }

  // On the control thread. The destructor runs on the actor's thread, after what runs now; the worker ends us if that takes too long.
  void end() {
    if (!actor_loop_) leave(0);
    if (ending_) return;
    ending_ = true;
    actor_loop_->post([this] {
      if (server_owner_) server_owner_->close();
      guarded([&]() -> Result<std::string> {
        runner_.reset();  // After what runs on the other threads.
        checkpoints_.reset();
        object_.reset();
        return std::string();
      });
      leave(0);
    });
  }

  net::UniqueFd control_;
  SystemClock clock_;
  HostLease lease_{clock_};
  SystemRandom random_;
  protocol::HostStart start_;
  int math_threads_ = 1;
  bool ending_ = false;
  std::unique_ptr<LoopSystem> loops_;
  std::unique_ptr<net::IoLoop> io_;
  std::shared_ptr<security::TlsContext> tls_;
  std::shared_ptr<ClusterSession> session_;
  std::unique_ptr<net::CallServer> server_owner_;
  std::atomic<net::CallServer*> server_{nullptr};
  const ActorClass* class_ = nullptr;
  std::shared_ptr<void> object_;
  std::unique_ptr<ActorCheckpoints> checkpoints_;
  std::unique_ptr<EventLoop> actor_loop_;
  std::unique_ptr<CallRunner> runner_;
};

}  // namespace

const Self& self() {
  if (!self_slot()) throw Exception(Error{ErrorCode::kUnavailable, "volador::self() has a meaning inside an actor only; this process is a driver"});
  return *self_slot();
}

bool is_inside_actor() { return self_slot().has_value(); }

void run_host(net::UniqueFd control, net::UniqueFd lease_page) {
  // Ctrl-C in the driver's terminal is the driver's business; the worker says when to end.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGTERM, SIG_DFL);
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // What user code leaves behind comes to the worker only when this host has ended.
  setvbuf(stdout, nullptr, _IOLBF, 0);
  Host* host = new Host(std::move(control), std::move(lease_page));  // Never destroyed: the process ends by _exit.
  host->run();
}

}  // namespace volador
