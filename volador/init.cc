#include "volador/init.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "runtime/actor/cluster_session.h"
#include "runtime/actor/host_runtime.h"
#include "runtime/cluster_processes.h"
#include "runtime/cluster_target.h"
#include "runtime/control/client_link.h"
#include "runtime/control/join.h"
#include "runtime/control/program_transfer.h"
#include "runtime/control/program_uploader.h"
#include "runtime/control/run_file_server.h"
#include "runtime/descriptor_limit.h"
#include "runtime/log.h"
#include "runtime/machine.h"
#include "runtime/paths.h"
#include "runtime/quantities.h"
#include "runtime/security/tls_context.h"
#include "runtime/security/token.h"
#include "runtime/standard_streams.h"
#include "runtime/task/task_submitter.h"
#include "runtime/version.h"
#include "volador/embedding.h"
#include "volador/local_cluster.h"
#include "volador/program.h"
#include "volador/program_settings.h"
#include "volador/template_process.h"

namespace volador {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::minutes kUploadPatience{10};

template <class T>
T value_or_throw(Result<T> result) {
  if (!result) throw Exception(std::move(result).error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// Takes a descriptor passed by number, and removes the variable so that children do not use it.
net::UniqueFd take_fd(const char* name) {
  const std::string text = environment(name);
  unsetenv(name);
  return net::UniqueFd(text.empty() ? -1 : std::atoi(text.c_str()));
}

// Does not return in processes started for a role. `embedding`: null unless the executable is an interpreter.
void play_role(const Embedding* embedding) {
  const std::string role = environment("VOLADOR_ROLE");
  if (role.empty()) return;
  unsetenv("VOLADOR_ROLE");
  net::UniqueFd control = take_fd("VOLADOR_CONTROL_FD");
  net::UniqueFd lease_page = take_fd("VOLADOR_LEASE_FD");
  if (!control)
    throw Exception(
        Error{ErrorCode::kInvalidArgument,
              fmt::format(
                  "VOLADOR_ROLE is \"{}\" but VOLADOR_CONTROL_FD is not set: these are for Volador itself, unset both",
                  role)});
  if (role == "template") run_template(std::move(control), embedding);
  if (role == "host") run_host(std::move(control), std::move(lease_page));
  if (role == "local") run_local_cluster(std::move(control));
  throw Exception(
      Error{ErrorCode::kInvalidArgument,
            fmt::format("VOLADOR_ROLE: expected nothing, got \"{}\": it is for Volador itself, unset it", role)});
}

constexpr milliseconds kHeadWait{30'000};
constexpr milliseconds kHeadWaitMax = std::chrono::hours(24);
constexpr milliseconds kHeadRetry{200};

Result<milliseconds> head_wait(const InitOptions& options) {
  const std::string text = environment("VOLADOR_HEAD_WAIT");
  Result<milliseconds> wait = options.head_wait.value_or(kHeadWait);
  if (!options.head_wait && !text.empty()) {
    const auto parsed = parse_duration(text);
    if (!parsed)
      return make_error(ErrorCode::kInvalidArgument, fmt::format("VOLADOR_HEAD_WAIT: {}", parsed.error().message));
    wait = std::chrono::ceil<milliseconds>(*parsed);
  }
  if (*wait >= milliseconds(0) && *wait <= kHeadWaitMax) return wait;
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("{}: expected a time from 0 to 24 h, got {}", options.head_wait ? "head_wait" : "VOLADOR_HEAD_WAIT",
                  options.head_wait ? fmt::format("{} ms", wait->count()) : text));
}

// Calls `connect` until it succeeds, fails for another reason than an unreachable head, or `wait` has passed. Stops at
// once if the head is not expected to return.
template <class Connect>
Result<void> connect_to_known(const Paths& paths, const ClusterTarget& access, milliseconds wait, Connect&& connect) {
  const auto end = std::chrono::steady_clock::now() + wait;
  bool told = false;
  while (true) {
    auto connected = connect();
    if (connected || connected.error().code != ErrorCode::kUnavailable ||
        !is_head_expected(paths, access.local_cluster))
      return connected;
    if (std::chrono::steady_clock::now() + kHeadRetry > end) {
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("the head of cluster \"{0}\" at {1} did not answer within {2:g} s (head_wait, "
                                    "VOLADOR_HEAD_WAIT), and the cluster was not "
                                    "stopped: {3}. Start the head again with `volador start --head --cluster={0}`, end "
                                    "the cluster with `volador stop`, or set "
                                    "VOLADOR_ADDRESS=local to run this program in a private cluster.",
                                    access.local_cluster, access.address, std::chrono::duration<double>(wait).count(),
                                    connected.error().message));
    }
    if (!std::exchange(told, true)) {
      write_to_stderr(
          fmt::format("volador: waiting up to {:g} s for the head of cluster \"{}\" at {}, which does not answer\n",
                      std::chrono::duration<double>(wait).count(), access.local_cluster, access.address));
    }
    std::this_thread::sleep_for(kHeadRetry);
  }
}

}  // namespace

struct Cluster::Impl {
  SystemClock clock;
  SystemRandom random;
  std::string name;
  std::string address;
  std::unique_ptr<LocalCluster> local;
  std::unique_ptr<net::IoLoop> loop;
  std::shared_ptr<ClusterSession> session;
  std::unique_ptr<control::ClientLink> link;
  std::unique_ptr<control::ProgramUploader> uploader;
  std::unique_ptr<control::RunFileServer> run_files;  // Replies through the link.
  std::atomic<uint64_t> connections{0};               // Connections of the link so far.
  bool down = false;

  ~Impl() { shutdown(); }

  void shutdown() {
    if (std::exchange(down, true)) return;
    TaskSubmitter::shutdown();
    if (loop) LedLoop::remove(loop.get());
    if (session) session->close();
    if (Session::has_current()) Session::set_current(nullptr);
    if (link) link->close();
    uploader.reset();
    run_files.reset();
    link.reset();
    session.reset();
    loop.reset();
    local.reset();
  }

  // `embedding`: null unless the executable is an interpreter.
  Result<void> connect(const ClusterTarget& access, const InitOptions& options, const Embedding* embedding) {
    auto token = security::parse_token(access.token);
    if (!token) return make_error(std::move(token).error());
    auto program = describe_program(embedding);
    if (!program) return make_error(std::move(program).error());
    control::JoinOptions join;
    join.address = access.address;
    join.token = std::move(*token);
    join.role = security::Role::kDriver;
    join.name = program->name;
    auto joined = control::join(join, clock);
    if (!joined) return make_error(with_sign_in(std::move(joined).error(), access));
    address = access.address;
    name = joined->cluster_name;

    auto io = net::IoLoop::create();
    if (!io) return make_error(std::move(io).error());
    loop = std::move(*io);
    LedLoop::install(loop.get());
    auto tls = security::TlsContext::create(joined->credentials);
    if (!tls) return make_error(std::move(tls).error());

    const auto driver = new_id<DriverId>(random);
    ClusterSessionOptions session_options;
    session_options.loop = loop.get();
    session_options.clock = &clock;
    session_options.random = &random;
    session_options.driver = driver;
    session_options.machine_id = program->description.machine_id();
    session_options.program_sha256 = program->description.sha256();
    session_options.tls = std::move(*tls);
    session_options.who = "driver " + program->name;
    session_options.is_private = local != nullptr;
    session_options.send = [this](protocol::ClientMessage message) {
      if (link) link->send(std::move(message));
    };
    protocol::Hello hello;
    hello.set_protocol_version(control::kProtocolVersion);
    hello.set_version(std::string(kVersion));
    hello.set_driver_id(raw(driver));
    hello.set_name(program->name);
    hello.set_pid(getpid());
    hello.set_machine_id(session_options.machine_id);
    *hello.mutable_program() = program->description;
    hello.set_wants_logs(options.logs_to_driver);
    hello.set_namespace_(options.actor_namespace);
    session_options.hello = std::move(hello);
    control::LinkOptions link_options;
    link_options.address = access.address;
    link_options.credentials = joined->credentials;
    uploader = std::make_unique<control::ProgramUploader>([path = program->description.path(),
                                                           sha256 = program->description.sha256(),
                                                           link_options](const std::stop_token& stop) {
      const control::Channel channel(link_options.address, link_options.credentials);
      security::Digest digest{};
      std::copy_n(sha256.begin(), std::min(sha256.size(), digest.size()), digest.begin());
      return control::upload_program(channel, path, digest, kUploadPatience, stop);
    });
    session_options.upload_program = [this, sha256 = program->description.sha256()](const std::string& wanted) {
      if (wanted == sha256) uploader->request(connections.load());
    };
    run_files = std::make_unique<control::RunFileServer>(clock);
    session_options.read_run_files = [this](protocol::ReadRunFiles question) {
      run_files->ask(std::move(question), [this, connection = connections.load()](protocol::RunFilesAnswer answer) {
        if (connection != connections.load()) return;  // Another head may have reused this number.
        protocol::ClientMessage message;
        *message.mutable_run_files() = std::move(answer);
        link->send(std::move(message));
      });
    };
    session = std::make_shared<ClusterSession>(std::move(session_options));

    control::ClientLinkCallbacks callbacks;
    callbacks.on_message = [this](const protocol::HeadMessage& message) { session->on_message(message); };
    callbacks.on_state = [this](control::LinkState state, const Error& error) {
      ++connections;
      if (state == control::LinkState::kConnected) {
        ready.wait();
        session->on_connected();
      } else {
        session->on_lost(error);
      }
    };
    link = control::connect_client_link(std::move(link_options), std::move(callbacks));
    ready.set();
    VOLADOR_TRY(session->wait_welcome(milliseconds(10'000)));
    Session::set_current(session);
    return {};
  }

  // The first callback of the link may run before connect_client_link returns.
  struct Ready {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    void set() {
      const std::lock_guard<std::mutex> hold(mutex);
      done = true;
      changed.notify_all();
    }
    void wait() {
      std::unique_lock<std::mutex> hold(mutex);
      changed.wait(hold, [this] { return done; });
    }
  } ready;
};

Cluster::Cluster(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Cluster::~Cluster() = default;
Cluster::Cluster(Cluster&&) noexcept = default;
Cluster& Cluster::operator=(Cluster&&) noexcept = default;

const std::string& Cluster::name() const { return impl_->name; }
const std::string& Cluster::address() const { return impl_->address; }
bool Cluster::is_private() const { return impl_->local != nullptr; }
ResourceSet Cluster::resources() const { return impl_->session ? impl_->session->totals().total : ResourceSet(); }
void Cluster::shutdown() { impl_->shutdown(); }

Cluster init(int, char**, const InitOptions& options) { return init(options); }

void start_role(const Embedding& embedding) { play_role(&embedding); }

namespace {

Cluster connect_program(const InitOptions& given, const Embedding* embedding) {
  raise_descriptor_limit(kUserProcessDescriptors);
  const Paths paths = value_or_throw(Paths::from(PathEnvironment::of_this_process()));
  auto settings = value_or_throw(
      load_program_settings(paths).and_then([&](const Config& config) { return apply_settings(given, config); }));
  InitOptions& options = settings.options;
  if (options.actor_namespace.empty()) options.actor_namespace = environment("VOLADOR_NAMESPACE");
  if (!options.actor_namespace.empty()) value_or_throw(check_name("namespace", options.actor_namespace));
  if (Session::has_current())
    throw Exception(
        Error{ErrorCode::kInvalidArgument,
              "volador::init() was called before in this process and its Cluster still lives; use that one"});
  auto impl = std::make_unique<Cluster::Impl>();
  unsetenv("VOLADOR_TOKEN");  // Children of this process do not need it.

  const bool is_named = !options.address.empty() || !settings.cluster.empty();
  if (options.address != "local") {
    const auto target = find_cluster({.address = options.address, .cluster = settings.cluster, .token = options.token},
                                     paths, unix_ms(impl->clock.wall()));
    const bool none_here =
        !target && (target.error().code == ErrorCode::kUnavailable || target.error().code == ErrorCode::kNotFound);
    if (!target && (is_named || !none_here)) throw Exception(target.error());
    if (target) {
      const auto connect = [&] {
        impl = std::make_unique<Cluster::Impl>();
        return impl->connect(*target, options, embedding);
      };
      const bool is_local = !target->local_cluster.empty();
      const auto connected =
          is_local ? connect_to_known(paths, *target, value_or_throw(head_wait(options)), connect) : connect();
      if (connected) return Cluster(std::move(impl));
      // A stopped cluster is normal for a program that starts its own.
      const bool is_stopped = is_local && connected.error().code == ErrorCode::kUnavailable &&
                              !is_head_expected(paths, target->local_cluster);
      if (!options.address.empty() || !is_stopped) throw Exception(connected.error());
      log::debug("driver", "the cluster started last on this machine does not answer; starting a private one",
                 {{"address", target->address}, {"error", connected.error().message}});
      impl = std::make_unique<Cluster::Impl>();
    }
  }
  LocalClusterOptions local;
  local.num_cpus = options.num_cpus;
  local.num_gpus = options.num_gpus;
  local.memory_threshold = *options.memory_threshold;  // This setting has a default.
  local.object_store_memory = options.object_store_memory;
  local.object_spill_limit = options.object_spill_limit;
  impl->local = value_or_throw(LocalCluster::start(local, embedding));
  if (options.address.empty()) {
    write_to_stderr(
        "volador: no cluster runs here: this program has a private one, which ends with it (`volador start --head` "
        "starts one that stays; VOLADOR_ADDRESS=local asks for a private one)\n");
  }
  const auto own = find_cluster({}, impl->local->paths(), unix_ms(impl->clock.wall()));
  value_or_throw(impl->connect(value_or_throw(own), options, embedding));
  return Cluster(std::move(impl));
}

}  // namespace

Cluster init(const InitOptions& options) {
  open_closed_standard_streams();
  play_role(nullptr);
  return connect_program(options, nullptr);
}

Cluster init(const InitOptions& options, const Embedding& embedding) {
  open_closed_standard_streams();
  return connect_program(options, &embedding);
}

}  // namespace volador
