#include "worker/shell/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/clock.h"
#include "runtime/control/call_relay.h"
#include "runtime/control/certify.h"
#include "runtime/control/channel.h"
#include "runtime/control/join.h"
#include "runtime/control/program_transfer.h"
#include "runtime/descriptor_limit.h"
#include "runtime/log.h"
#include "runtime/machine.h"
#include "runtime/net/loopback.h"
#include "runtime/process_file.h"
#include "runtime/protocol/resource_map.h"
#include "runtime/random.h"
#include "runtime/version.h"
#include "worker/hosts/host_groups.h"
#include "worker/hosts/host_sockets.h"
#include "worker/hosts/leftovers.h"
#include "worker/hosts/warm_processes.h"
#include "worker/resources/health_reader.h"
#include "worker/shell/data_port.h"
#include "worker/shell/node_agent.h"
#include "worker/shell/node_identity.h"
#include "worker/store/spill_file.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

// To the head: after an outage every host may send a checkpoint (runtime/protocol/checkpoint_limit.h).
constexpr size_t kQueueBytesMax = size_t{1} << 30;
constexpr auto kJoinPatience = std::chrono::seconds(10);  // Limit for joining and the first registration.
constexpr auto kJoinRetry = milliseconds(300);
constexpr auto kSayWaitingAfter = std::chrono::seconds(1);
constexpr auto kStopPatience = std::chrono::seconds(5);  // For a graceful stop; the hosts' own grace is far shorter.
constexpr auto kProgramPatience = std::chrono::minutes(10);  // Per download.
constexpr auto kCertifyPatience = std::chrono::seconds(10);
constexpr auto kRenewEvery = std::chrono::minutes(1);
constexpr auto kStoreSocket = "store.sock";
constexpr Amount kSparesMin = 2, kSparesMax = 32;  // Prestarted hosts: as many as CPUs, within these limits.
constexpr double kStoreShare = 0.3;                // Fraction of the node's memory for objects.

struct Failure {
  WorkerExit exit;
  Error error;
};
template <class T>
using Outcome = tl::expected<T, Failure>;

tl::unexpected<Failure> failed(WorkerExit exit, Error error) { return tl::unexpected(Failure{exit, std::move(error)}); }

WorkerExit exit_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kUnavailable:
    case ErrorCode::kTimeout:
      return WorkerExit::kUnreachable;
    case ErrorCode::kUnauthenticated:
      return WorkerExit::kRefused;
    case ErrorCode::kPermissionDenied:
      return WorkerExit::kForbidden;
    case ErrorCode::kInvalidArgument:
      return WorkerExit::kBadOptions;
    default:
      return WorkerExit::kFailed;
  }
}

// A node from start to end: start() creates its parts step by step, the destructor destroys them in reverse order.
class WorkerProcess {
 public:
  explicit WorkerProcess(WorkerOptions options) : options_(std::move(options)) {}
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  Outcome<void> start();
  Outcome<void> serve();
  bool logs_to_file() const { return logs_to_file_; }  // Errors are in the node's log, not only on stderr.

 private:
  Outcome<void> become_member();
  Outcome<void> join_cluster(const security::JoinToken& token);
  void say_waiting(const Error& error);
  Outcome<void> claim_folders();
  Outcome<void> make_agent();
  void make_groups(double cpus);
  void certify_loop();
  void certify(HostId host, std::function<void(Result<security::Credentials>)> done);
  void renew_own_certificate();
  std::shared_ptr<control::Channel> channel();
  void wake(const char* why);

  WorkerOptions options_;
  bool logs_to_file_ = false;
  SystemClock clock_;
  const BootTime began_ = clock_.now();
  bool said_waiting_ = false;
  SystemRandom random_;
  std::string cluster_name_;
  NodePaths paths_;
  NodeIdentity identity_;
  std::optional<ProcessFile> pid_file_;
  fs::path run_dir_;
  security::Credentials credentials_;

  std::mutex channel_mutex_;  // Guards the two members below and credentials_.
  std::shared_ptr<control::Channel> channel_;

  std::mutex certify_mutex_;
  std::condition_variable certify_wake_;
  std::deque<std::pair<HostId, std::function<void(Result<security::Credentials>)>>> certify_queue_;
  std::stop_source certify_stop_;
  std::thread certifier_;

  std::unique_ptr<net::IoLoop> loop_;
  std::unique_ptr<control::CallRelay> relay_;
  std::unique_ptr<DataPort> port_;
  std::unique_ptr<StoreServer> store_;
  std::unique_ptr<HostGroups> groups_;
  std::unique_ptr<NodeAgent> agent_;
  net::UniqueFd signals_;
  net::UniqueFd wake_fd_;

  std::mutex state_mutex_;  // Guards state passed from the loop to the main thread.
  bool registered_ = false;
  bool finished_ = false;
  std::optional<Error> refusal_;
  std::optional<Error> link_error_;
};

// ---- membership ----

// If the first attempt was a while ago, notifies the user once.
void WorkerProcess::say_waiting(const Error& error) {
  if (said_waiting_ || !options_.on_waiting || clock_.now() - began_ < kSayWaitingAfter) return;
  said_waiting_ = true;
  options_.on_waiting(
      fmt::format("{}; tried again for up to {} s", error.message, std::chrono::seconds(kJoinPatience).count()));
}

Outcome<void> WorkerProcess::join_cluster(const security::JoinToken& token) {
  const auto until = clock_.now() + kJoinPatience;
  for (;;) {
    auto joined = control::join(
        {.address = options_.head_address, .token = token, .role = security::Role::kNode, .name = options_.node_name},
        clock_);
    if (joined) {
      if (!cluster_name_.empty() && cluster_name_ != joined->cluster_name) {
        return failed(WorkerExit::kBadOptions,
                      Error{ErrorCode::kInvalidArgument,
                            fmt::format("{} serves cluster {}, not {}; leave --cluster out or choose the right address",
                                        options_.head_address, joined->cluster_name, cluster_name_)});
      }
      cluster_name_ = joined->cluster_name;
      credentials_ = std::move(joined->credentials);
      return {};
    }
    // Retry only errors that may resolve: not a wrong token, certificate, version or name.
    if (joined.error().code != ErrorCode::kUnavailable || clock_.now() >= until)
      return failed(exit_of(joined.error()), joined.error());
    say_waiting(joined.error());
    std::this_thread::sleep_for(kJoinRetry);
  }
}

// Returns the files with the node's certificate.
security::CredentialFiles credential_files(const NodePaths& paths) {
  return {paths.node_pem(), paths.node_key(), paths.authority_pem()};
}

Outcome<void> WorkerProcess::become_member() {
  std::optional<security::JoinToken> token;
  if (!options_.token.empty()) {
    auto parsed = security::parse_token(options_.token);
    options_.token.assign(options_.token.size(), ' ');
    options_.token.clear();
    if (!parsed) return failed(exit_of(parsed.error()), parsed.error());
    token = std::move(*parsed);
  }
  if (cluster_name_.empty() && !token) {
    return failed(WorkerExit::kBadOptions, Error{ErrorCode::kInvalidArgument,
                                                 "no token: copy the join command that `volador start --head` printed, "
                                                 "or run `volador token create --role=join` there"});
  }
  bool joined = false;
  if (cluster_name_.empty()) {  // Received from the head.
    if (auto outcome = join_cluster(*token); !outcome) return outcome;
    joined = true;
    if (const auto name = check_name("cluster", cluster_name_); !name) return failed(WorkerExit::kFailed, name.error());
  }
  if (auto outcome = claim_folders(); !outcome) return outcome;
  if (!joined) {
    auto kept = security::load_credentials(credential_files(paths_));
    const auto validity = kept ? security::validity_of(kept->certificate_pem)
                               : Result<security::Validity>(make_error(ErrorCode::kNotFound, ""));
    const bool usable = kept && validity && clock_.wall() < validity->not_after;
    if (token) {
      // With a token a new certificate is always valid: the stored one may belong to a recreated cluster of this name.
      if (auto outcome = join_cluster(*token); !outcome) return outcome;
      joined = true;
    } else if (usable) {
      credentials_ = std::move(*kept);
    } else {
      return failed(WorkerExit::kBadOptions,
                    Error{ErrorCode::kUnauthenticated,
                          fmt::format("node {} has no valid certificate of cluster {}{}; pass --token",
                                      options_.node_name, cluster_name_, kept ? " (it has expired)" : "")});
    }
  }
  if (joined) {
    if (const auto saved = security::save_credentials(credentials_, credential_files(paths_)); !saved)
      return failed(WorkerExit::kFailed, saved.error());
  }
  return {};
}

Outcome<void> WorkerProcess::claim_folders() {
  paths_ = options_.paths.cluster(cluster_name_).node(options_.node_name);
  auto identity = claim_node(paths_, options_.node_name, random_);
  if (!identity)
    return failed(identity.error().code == ErrorCode::kUnavailable ? WorkerExit::kBadOptions : WorkerExit::kFailed,
                  identity.error());
  identity_ = std::move(*identity);
  auto pid_file = ProcessFile::claim(paths_.pid());
  if (!pid_file) return failed(WorkerExit::kBadOptions, pid_file.error());
  pid_file_.emplace(std::move(*pid_file));
  log::configure({.level = options_.log_level, .file = options_.log_to_file ? paths_.log().string() : std::string()});
  logs_to_file_ = options_.log_to_file;

  if (!identity_.fresh) {
    // Leftovers of a killed worker must be removed before this one registers at the head.
    const auto ended = clear_leftovers(options_.paths, paths_, identity_.id);
    if (!ended) return failed(WorkerExit::kFailed, ended.error());
    if (*ended > 0) log::warn("worker", "processes of an earlier worker were ended", {{"count", *ended}});
  }
  run_dir_ = options_.paths.run_of(identity_.id);
  if (const auto made = make_run_directory(options_.paths.run(), ::getuid()); !made)
    return failed(WorkerExit::kFailed, made.error());
  if (const auto made = make_run_directory(run_dir_, ::getuid()); !made)
    return failed(WorkerExit::kFailed, made.error());
  for (const fs::path& folder : {paths_.logs(), paths_.scratch(), run_dir_ / kWarmFolder}) {
    if (const auto made = make_private_directory(folder); !made) return failed(WorkerExit::kFailed, made.error());
  }
  return {};
}

// ---- parts ----

std::shared_ptr<control::Channel> WorkerProcess::channel() {
  const std::lock_guard guard(channel_mutex_);
  return channel_;
}

void WorkerProcess::certify(HostId host, std::function<void(Result<security::Credentials>)> done) {
  {
    const std::lock_guard guard(certify_mutex_);
    certify_queue_.emplace_back(host, std::move(done));
    if (!certifier_.joinable() && !certify_stop_.stop_requested()) certifier_ = std::thread([this] { certify_loop(); });
  }
  certify_wake_.notify_one();
}

void WorkerProcess::certify_loop() {
  std::unique_lock lock(certify_mutex_);
  for (;;) {
    certify_wake_.wait(lock, [this] { return certify_stop_.stop_requested() || !certify_queue_.empty(); });
    if (certify_stop_.stop_requested()) return;
    auto [host, done] = std::move(certify_queue_.front());
    certify_queue_.pop_front();
    lock.unlock();
    done(control::certify_host(*channel(), host, kCertifyPatience, certify_stop_.get_token()));
    done = nullptr;
    lock.lock();
  }
}

void WorkerProcess::renew_own_certificate() {
  const auto validity = security::validity_of(credentials_.certificate_pem);
  if (!validity || !security::due_for_renewal(*validity, clock_.wall())) return;
  auto fresh = control::renew_node(*channel(), options_.node_name, kCertifyPatience);
  if (!fresh)
    return log::warn("worker", "the node's certificate could not be renewed; tried again soon",
                     {{"reason", fresh.error().message}});
  if (const auto saved = security::save_credentials(*fresh, credential_files(paths_)); !saved) {
    log::warn("worker", "the node's new certificate could not be saved", {{"reason", saved.error().message}});
  }
  agent_->set_credentials(*fresh);
  store_->set_credentials(*fresh);
  const std::lock_guard guard(channel_mutex_);
  credentials_ = std::move(*fresh);
  channel_ = std::make_shared<control::Channel>(options_.head_address, credentials_);
}

void WorkerProcess::wake(const char*) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_.get(), &one, sizeof one);
}

// A worker that may not create groups goes on without them.
void WorkerProcess::make_groups(double cpus) {
  if (!options_.cgroups) return;
  auto groups =
      HostGroups::create(*loop_, {.name = group_name(cluster_name_, options_.node_name, short_id(identity_.id)),
                                  .cpus = cpus,
                                  .processes_max = options_.processes_per_actor,
                                  .record = paths_.groups()});
  if (!groups) {
    return log::info("worker", "actors run without limits of the kernel; --cgroups=off leaves out this line",
                     {{"reason", groups.error().message}});
  }
  groups_ = std::move(*groups);
  for (const std::string& missing : groups_->missing())
    log::info("worker", "a limit of the kernel is not set for actors", {{"reason", missing}});
}

Outcome<void> WorkerProcess::make_agent() {
  if (!options_.health_check.empty() && ::access(options_.health_check.c_str(), X_OK) != 0) {
    return failed(WorkerExit::kBadOptions,
                  Error{ErrorCode::kInvalidArgument,
                        fmt::format("health_check: expected a program that this user may execute, got {} ({}); give "
                                    "another path, or make it executable with chmod +x",
                                    options_.health_check, std::strerror(errno))});
  }
  auto resources = discover(options_.resources);
  if (!resources) return failed(WorkerExit::kBadOptions, resources.error());
  auto total = total_of(*resources, options_.resources);
  if (!total) return failed(WorkerExit::kBadOptions, total.error());
  auto machine = machine_id();
  if (!machine) return failed(WorkerExit::kFailed, machine.error());
  auto head = parse_host_port(options_.head_address);
  if (!head) return failed(WorkerExit::kBadOptions, head.error());
  auto own_address = source_address_towards(*head);
  if (!own_address) return failed(WorkerExit::kUnreachable, own_address.error());
  const std::string bind = options_.bind_address.empty() ? *own_address : options_.bind_address;

  channel_ = std::make_shared<control::Channel>(options_.head_address, credentials_);
  auto loop = net::IoLoop::create("volador-worker");
  if (!loop) return failed(WorkerExit::kFailed, loop.error());
  loop_ = std::move(*loop);
  auto relay = control::CallRelay::create(
      *loop_, {.folder = run_dir_, .address = options_.head_address, .authority_pem = credentials_.authority_pem});
  if (relay) {
    relay_ = std::move(*relay);
  } else {
    log::warn("worker", "processes of jobs call the head without the node's relay", {{"error", relay.error().message}});
  }
  auto port = DataPort::create(*loop_, clock_, {.bind_address = bind, .port = options_.data_port},
                               [this](HostId host, net::UniqueFd fd, uint64_t number) -> Result<void> {
                                 if (!agent_ || !store_) return make_error(ErrorCode::kUnavailable, "the node starts");
                                 if (!host.is_nil()) return agent_->adopt(host, std::move(fd), number);
                                 store_->adopt(std::move(fd), [this, number] { port_->on_proved(number); });
                                 return {};
                               });
  if (!port)
    return failed(port.error().code == ErrorCode::kInvalidArgument ? WorkerExit::kBadOptions : WorkerExit::kFailed,
                  port.error());
  port_ = std::move(*port);
  // A wildcard address cannot be called: use the address that faces the head.
  std::string data_address = port_->address();
  if (bind == "0.0.0.0" || bind == "::") {
    const bool six = own_address->find(':') != std::string::npos;
    data_address = (six ? "[" + *own_address + "]" : *own_address) + data_address.substr(data_address.rfind(':'));
  }

  StoreServerOptions store;
  store.socket = run_dir_ / kStoreSocket;
  store.node = identity_.id;
  store.node_name = options_.node_name;
  store.address = data_address;
  store.credentials = credentials_;  // Also on loopback: another worker of this machine may have or want objects.
  store.limits.bytes_max = options_.resources.object_store_memory.value_or(
      static_cast<int64_t>(kStoreShare * static_cast<double>(resources->memory_bytes)));
  store.spill_folder = options_.resources.object_spill_directory.empty()
                           ? spill_folder(paths_.spill())
                           : fs::path(options_.resources.object_spill_directory);
  const fs::path spills_to = store.spill_folder;
  store.limits.spill_bytes_max = options_.resources.object_spill_limit.value_or(free_bytes_of(store.spill_folder) / 2);
  auto made_store = StoreServer::create(std::move(store), clock_, random_);
  if (!made_store)
    return failed(
        made_store.error().code == ErrorCode::kInvalidArgument ? WorkerExit::kBadOptions : WorkerExit::kFailed,
        made_store.error());
  store_ = std::move(*made_store);

  AgentOptions agent;
  agent.store = store_.get();
  agent.core.node_name = options_.node_name;
  protocol::Register& registration = agent.core.registration;
  registration.set_protocol_version(control::kProtocolVersion);
  registration.set_version(std::string(kVersion));
  registration.set_node_id(raw(identity_.id));
  registration.set_incarnation(raw(new_id<NodeId>(random_)));
  registration.set_name(options_.node_name);
  registration.set_machine_id(*machine);
  registration.set_data_address(data_address);
  registration.set_store_socket((run_dir_ / kStoreSocket).string());
  registration.set_pid(::getpid());
  *registration.mutable_total() = to_message(*total);
  for (const GpuInfo& gpu : resources->gpus) {
    protocol::Gpu& sent = *registration.add_gpus();
    sent.set_index(gpu.index);
    sent.set_uuid(gpu.uuid);
    sent.set_model(gpu.model);
    sent.set_memory_bytes(gpu.memory_bytes);
  }
  for (const auto& [name, value] : options_.labels) (*registration.mutable_labels())[name] = value;

  agent.memory_threshold = options_.memory_threshold;
  agent.card = card_with_address(bind);
  agent.check = {.program = options_.health_check,
                 .interval = options_.health_check_interval,
                 .timeout = options_.health_check_timeout,
                 .env = own_environment()};
  agent.check.env["VOLADOR_NODE_ID"] = to_string(identity_.id);  // By which clear_leftovers() finds it.
  agent.check.env["VOLADOR_NODE_NAME"] = options_.node_name;
  agent.hosts.node_name = options_.node_name;
  agent.hosts.node = identity_.id;
  agent.hosts.socket_dir = make_socket_folder(options_.paths, identity_.id);
  agent.warm = run_dir_ / kWarmFolder;
  agent.hosts.store_socket = (run_dir_ / kStoreSocket).string();
  agent.hosts.scratch_dir = paths_.scratch();
  agent.hosts.log_dir = paths_.logs();
  agent.log_file = paths_.log();
  agent.folders = {{.use = {}, .path = "/"},
                   {.use = "logs", .path = paths_.logs()},
                   {.use = "temporary files", .path = paths_.scratch()},
                   {.use = "spilled objects", .path = spills_to}};
  make_groups(static_cast<double>(total->get("cpus")) / static_cast<double>(kUnit));
  agent.hosts.groups = groups_.get();
  agent.hosts.gpus = resources->gpus;
  agent.hosts.certificates = !net::is_loopback(bind);
  agent.hosts.base_env = own_environment();
  // About 0.3 MB each, for 10 s after the last start.
  agent.hosts.spares.most = static_cast<size_t>(std::clamp<Amount>(total->get("cpus") / kUnit, kSparesMin, kSparesMax));
  agent.templates.node_name = options_.node_name;
  agent.programs.cache = options_.paths.programs();
  agent.programs.machine_id = *machine;
  agent.programs.node_name = options_.node_name;
  agent.programs.fetch = [this](const security::Digest& sha256, const fs::path& destination, int64_t bytes_max) {
    return control::download_program(*channel(), sha256, destination, kProgramPatience, bytes_max);
  };

  AgentOutside outside;
  outside.connect = [this](control::WorkerLinkCallbacks callbacks) {
    security::Credentials credentials;
    {
      const std::lock_guard guard(channel_mutex_);
      credentials = credentials_;
    }
    return control::connect_worker_link(
        {.address = options_.head_address, .credentials = std::move(credentials), .queue_bytes_max = kQueueBytesMax},
        std::move(callbacks));
  };
  outside.certify = [this](HostId host, std::function<void(Result<security::Credentials>)> done) {
    certify(host, std::move(done));
  };
  outside.on_proved = [this](uint64_t connection) { port_->on_proved(connection); };
  outside.on_registered = [this, data_address] {
    {
      const std::lock_guard guard(state_mutex_);
      registered_ = true;
    }
    log::info("worker", "node is ready", {{"node", options_.node_name}, {"data_address", data_address}});
    if (options_.on_ready) options_.on_ready(options_.node_name, data_address);
  };
  outside.on_finished = [this](std::optional<Error> error) {
    {
      const std::lock_guard guard(state_mutex_);
      finished_ = true;
      refusal_ = std::move(error);
    }
    wake("finished");
  };
  outside.on_link = [this](control::LinkState state, const Error& error) {
    {
      const std::lock_guard guard(state_mutex_);
      link_error_.reset();
      if (state == control::LinkState::kLost) link_error_ = error;
    }
    wake("link");
  };
  auto made = NodeAgent::create(*loop_, clock_, std::move(agent), std::move(outside));
  if (!made) return failed(WorkerExit::kFailed, made.error());
  agent_ = std::move(*made);
  return {};
}

// ---- lifetime ----

Outcome<void> WorkerProcess::start() {
  sigset_t handled;
  sigemptyset(&handled);
  sigaddset(&handled, SIGTERM);
  sigaddset(&handled, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &handled, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  signals_.reset(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  wake_fd_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!signals_ || !wake_fd_)
    return failed(WorkerExit::kFailed, Error{ErrorCode::kUnavailable, "no descriptor left; raise `ulimit -n`"});
  Children::become_subreaper();
  raise_descriptor_limit(kUserProcessDescriptors);  // Inherited by hosts.
  if (options_.node_name.empty()) {
    char name[256] = {};
    ::gethostname(name, sizeof name - 1);
    options_.node_name = name;
  }
  if (const auto name = check_name("node", options_.node_name); !name)
    return failed(WorkerExit::kBadOptions, name.error());
  cluster_name_ = options_.cluster_name;
  if (!cluster_name_.empty()) {
    if (const auto name = check_name("cluster", cluster_name_); !name)
      return failed(WorkerExit::kBadOptions, name.error());
  }
  if (auto outcome = become_member(); !outcome) return outcome;
  if (auto outcome = make_agent(); !outcome) return outcome;
  agent_->start();
  return {};
}

// Whether the descriptor's other end is closed. Received bytes are discarded.
bool at_end(int fd) {
  char byte[64];
  const ssize_t got = ::read(fd, byte, sizeof byte);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

Outcome<void> WorkerProcess::serve() {
  const BootTime give_up = clock_.now() + kJoinPatience;
  BootTime renew_at = clock_.now() + kRenewEvery;
  BootTime kill_at = BootTime::max();
  bool stopping = false;
  const auto stop = [&](const std::string& reason) {
    if (std::exchange(stopping, true)) return;
    log::info("worker", "node stops", {{"reason", reason}});
    kill_at = clock_.now() + kStopPatience;
    agent_->stop(reason);
  };
  for (;;) {
    pollfd waits[3] = {
        {signals_.get(), POLLIN, 0}, {wake_fd_.get(), POLLIN, 0}, {stopping ? -1 : options_.parent_fd, POLLIN, 0}};
    bool registered = false;
    {
      const std::lock_guard guard(state_mutex_);
      if (finished_) {
        if (refusal_) return failed(exit_of(*refusal_), *refusal_);
        return {};
      }
      registered = registered_;
      const bool denied = link_error_ && (link_error_->code == ErrorCode::kUnauthenticated ||
                                          link_error_->code == ErrorCode::kPermissionDenied);
      if (!registered_ && !stopping && link_error_) say_waiting(*link_error_);
      if (!registered_ && !stopping && (denied || clock_.now() >= give_up)) {
        const Error error = link_error_.value_or(
            Error{ErrorCode::kUnavailable, fmt::format("the head at {} did not accept this node within {} s",
                                                       options_.head_address, kJoinPatience.count())});
        return failed(exit_of(error), error);
      }
    }
    const BootTime next = std::min({renew_at, kill_at, registered ? BootTime::max() : give_up,
                                    registered || said_waiting_ ? BootTime::max() : clock_.now() + kSayWaitingAfter});
    const auto wait =
        std::clamp(std::chrono::ceil<milliseconds>(next - clock_.now()), milliseconds(0), milliseconds(60'000));
    if (::poll(waits, 3, static_cast<int>(wait.count())) < 0 && errno != EINTR)
      return failed(WorkerExit::kFailed, Error{ErrorCode::kInternal, "poll failed"});
    uint64_t count = 0;
    while (::read(wake_fd_.get(), &count, sizeof count) > 0) {
    }
    for (signalfd_siginfo info{}; ::read(signals_.get(), &info, sizeof info) == sizeof info;) {
      if (stopping) return {};  // Second request: stop at once.
      stop(info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
    }
    if (!stopping && options_.parent_fd >= 0 && waits[2].revents != 0 && at_end(options_.parent_fd))
      stop("the program that started this cluster has ended");
    if (clock_.now() >= kill_at) return {};
    if (clock_.now() >= renew_at) {
      renew_at = clock_.now() + kRenewEvery;
      renew_own_certificate();
    }
  }
}

WorkerProcess::~WorkerProcess() {
  if (port_) port_->close();
  if (agent_) {
    agent_->close_link();
    agent_.reset();  // Kills the remaining hosts.
  }
  groups_.reset();
  store_.reset();
  relay_.reset();
  port_.reset();
  {
    const std::lock_guard guard(certify_mutex_);
    certify_stop_.request_stop();
    certify_queue_.clear();
  }
  certify_wake_.notify_all();
  if (certifier_.joinable()) certifier_.join();
  loop_.reset();
  std::error_code ignored;
  if (!run_dir_.empty()) {
    fs::remove_all(run_dir_, ignored);
    remove_socket_folder(options_.paths, identity_.id);
  }
  if (!paths_.directory.empty()) fs::remove_all(paths_.scratch(), ignored);
  if (!paths_.directory.empty()) fs::remove(paths_.spill(), ignored);
}

}  // namespace

WorkerExit run_worker(WorkerOptions options) {
  WorkerProcess process(std::move(options));
  auto outcome = process.start();
  if (outcome) outcome = process.serve();
  if (outcome) return WorkerExit::kStopped;
  std::fprintf(stderr, "%s\n", outcome.error().error.message.c_str());
  if (process.logs_to_file()) log::warn("worker", "node ends", {{"reason", to_string(outcome.error().error)}});
  return outcome.error().exit;
}

}  // namespace volador::worker
