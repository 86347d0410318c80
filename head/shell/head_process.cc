#include "head/shell/head_process.h"

#include <fmt/format.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/server_interceptor.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <mutex>
#include <thread>

#include "head/audit/audit_module.h"
#include "head/journal/directory_lock.h"
#include "head/journal/journal_writer.h"
#include "head/journal/redis_journal.h"
#include "head/kernel/core.h"
#include "head/shell/authorizer.h"
#include "head/shell/bounded_worker.h"
#include "head/shell/cluster_identity.h"
#include "head/shell/cluster_operations.h"
#include "head/shell/control_service.h"
#include "head/shell/core_runner.h"
#include "head/shell/experiment_keeper.h"
#include "head/shell/head_access.h"
#include "head/shell/listen_port.h"
#include "head/shell/log_rings.h"
#include "head/shell/log_service.h"
#include "head/shell/operation_service.h"
#include "head/shell/plain_peer.h"
#include "head/shell/program_exchange.h"
#include "head/shell/sign_on.h"
#include "head/shell/user_operations.h"
#include "head/shell/watch_service.h"
#include "runtime/access_file.h"
#include "runtime/control/channel.h"
#include "runtime/descriptor_limit.h"
#include "runtime/log.h"
#include "runtime/net/guarded_port.h"
#include "runtime/net/loopback.h"
#include "runtime/operations/registry.h"
#include "runtime/process_file.h"
#include "runtime/protocol/volador/v1/cluster.grpc.pb.h"
#include "runtime/protocol/volador/v1/live.grpc.pb.h"
#include "runtime/random.h"
#include "runtime/security/authority.h"
#include "runtime/version.h"

namespace volador::head {
namespace {

constexpr std::string_view kLoopback = "127.0.0.1";
constexpr int kKeepaliveMs = 5000;  // For silent peers only; the core suspects nodes earlier.
constexpr int kKeepaliveTimeoutMs = 3000;
constexpr int kReadBytes = 2048;       // Initial read size; gRPC reads more when more arrives.
constexpr int kTlsRecordBytes = 4096;  // gRPC buffers this much per connection to assemble records.
// Connections that do not finish their handshake in time are closed; see also net::AdmissionLimits.
constexpr int kHandshakeMs = 5000;
constexpr int kStreamsMax = 256;  // Per connection.
// gRPC still reads data that arrived on an ended connection, so the limit is low.
constexpr int kUnprovedReceiveBytes = 32 << 10;
// Messages in transit; beyond it connections are slowed down and refused.
constexpr size_t kMemoryBytesMax = size_t{1} << 30;

// Reports authenticated peers to the port.
class ProofObserver final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit ProofObserver(net::GuardedPort& port) : port_(port) {}

  // Called for each admitted call; intercepts nothing.
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    if (port_.expects_proofs() && needs_proof(info->method()))
      port_.on_proved(plain_peer(info->server_context()->peer()));
    return nullptr;
  }

 private:
  net::GuardedPort& port_;
};

}  // namespace

struct HeadProcess::Impl {
  Impl(HeadOptions o, const Clock& c, Random& r)
      : options(std::move(o)), clock(c), random(r), failure_event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Impl() {
    stop();
    close(failure_event);
  }

  Result<void> start();
  Result<void> load_or_create_cluster();
  Result<void> open_journal();
  Result<void> load_journal();
  Result<void> load_experiments();
  Result<void> ensure_tokens();
  Result<void> ensure_token(std::string& text, security::TokenRole role, std::string note,
                            std::vector<Mutation>& journal);
  void on_token_revoked(const std::string& id);
  Result<void> serve();
  Result<void> publish();
  Result<void> publish_access() const;
  void register_operations();
  Result<std::string> login_link();
  void fail(Error error);
  void stop();

  HeadOptions options;
  const Clock& clock;
  Random& random;
  const int failure_event;
  mutable std::mutex failure_mutex;
  std::optional<Error> failure;

  // In construction order; stop() ends them in reverse.
  HeadPaths files;
  std::optional<DirectoryLock> lock;
  std::optional<ProcessFile> process_file;
  ClusterIdentity identity;
  bool existed = false;
  std::optional<security::Authority> authority;
  std::unique_ptr<Journal> journal;
  std::unique_ptr<Authorizer> authorizer;
  std::unique_ptr<HeadCore> core;
  std::unique_ptr<AuditModule> audit;
  std::unique_ptr<JournalWriter> writer;
  LogRings logs;
  std::unique_ptr<LoopSystem> loops;
  std::unique_ptr<ExperimentKeeper> keeper;
  std::vector<ExperimentKeeper::Kept> ran;  // Experiments that ran when the last head ended; kept until they are shown.
  std::unique_ptr<CoreRunner> runner;
  std::unique_ptr<ExperimentRestore> restore;
  std::unique_ptr<ProgramExchange> programs;
  std::unique_ptr<ControlService> control;
  std::unique_ptr<HeadAccess> access;
  operations::Registry registry;
  BoundedWorker passwords;
  std::unique_ptr<SignOn> sign_on;  // Null: no provider of sign-ins is configured.
  SignOnAdmission admission;
  std::unique_ptr<LogService> log_lines;
  WatchService watches;
  std::unique_ptr<OperationService> cluster_service, live_service, studies_service, jobs_service, experiments_service,
      katib_service, observations_service, models_service, boards_service, users_service;
  std::mutex link_mutex;
  std::function<Result<std::string>()> make_login_link;
  std::shared_ptr<grpc::AuthMetadataProcessor> processor;
  std::unique_ptr<net::GuardedPort> port;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::unique_ptr<grpc::Server> server;
  HeadReady ready;
};

Result<void> HeadProcess::Impl::load_or_create_cluster() {
  if (options.cluster.empty()) options.cluster = pick_cluster_name(options.paths, random);
  VOLADOR_TRY(check_name("--name", options.cluster));
  files = options.paths.cluster(options.cluster).head();
  VOLADOR_TRY(make_private_directory(files.directory));
  auto locked = DirectoryLock::acquire(files.directory);
  if (!locked) return make_error(locked.error());
  lock = std::move(*locked);
  auto named = ProcessFile::claim(files.pid());
  if (!named) return make_error(named.error());
  process_file.emplace(std::move(*named));

  auto known = load_identity(files.cluster_json());
  if (known) {
    identity = std::move(*known);
    existed = true;
    auto loaded = security::Authority::load(files.directory);
    if (!loaded) return make_error(loaded.error());
    authority = std::move(*loaded);
    if (authority->cluster() != identity.id) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: its id is not the authority's beside it. Restore both from one copy.",
                                    files.cluster_json().string()));
    }
    return {};
  }
  if (known.error().code != ErrorCode::kNotFound) return make_error(known.error());
  // Without its description the cluster is incomplete and no peer can have joined it.
  identity = {.name = options.cluster, .id = new_id<ClusterId>(random)};
  auto created = security::Authority::create(identity.id, clock.wall());
  if (!created) return make_error(created.error());
  authority = std::move(*created);
  return authority->save(files.directory);
}

Result<void> HeadProcess::Impl::open_journal() {
  auto opened = [this]() -> Result<std::unique_ptr<Journal>> {
    if (options.store.empty()) return open_sqlite_journal({.file = files.journal(), .durability = options.durability});
    auto address = parse_redis_url(options.store);
    if (!address) return make_error(address.error());
    return open_redis_journal(
        {.address = *address, .cluster = identity.id, .durability = options.durability, .force = options.force_store});
  }();
  if (!opened) return make_error(opened.error());
  journal = std::move(*opened);
  if (journal->generation() <= identity.generation && !options.force_store) {
    return make_error(
        ErrorCode::kInternal,
        fmt::format("{}: an older or empty store (opening {}, this cluster has seen {}). Restore the store, or remove "
                    "{} to start a new cluster.",
                    journal->description(), journal->generation(), identity.generation, files.directory.string()));
  }
  identity.generation = journal->generation();
  return {};
}

// Unix time minus boot time.
static int64_t boot_offset_ms(const Clock& clock) {
  const auto since_boot = std::chrono::duration_cast<std::chrono::milliseconds>(clock.now().time_since_epoch());
  return unix_ms(clock.wall()) - since_boot.count();
}

Result<void> HeadProcess::Impl::load_journal() {
  authorizer = std::make_unique<Authorizer>(identity.id, clock);
  core = std::make_unique<HeadCore>(Options{.cluster_id = identity.id,
                                            .cluster_name = identity.name,
                                            .version = std::string(kVersion),
                                            .times = options.times,
                                            .limits = options.limits,
                                            .boot_unix_ms = boot_offset_ms(clock),
                                            .keep_experiments = options.keep_experiments,
                                            .check_config = options.check_config,
                                            .guard = options.guard},
                                    random);
  audit = std::make_unique<AuditModule>(core->context());
  core->add_module(*audit);
  return journal->load([this](std::string_view table, std::string_view key, std::string_view value) {
    if (table == kUsersTable) {
      if (!authorizer->load_user(key, value))
        log::warn("head", "a user's record cannot be read and is left out", {{"user", key}});
      return;
    }
    if (table == kUserGroupsTable) {
      if (!authorizer->load_group(key, value))
        log::warn("head", "a group's record cannot be read and is left out", {{"group", key}});
      return;
    }
    if (table != kTokensTable) return core->load(table, key, value);
    if (!authorizer->load_token(key, value))
      log::warn("head", "a token's record cannot be read and is left out", {{"token", key}});
  });
}

Result<void> HeadProcess::Impl::load_experiments() {
  if (!options.keep_experiments) return {};
  auto opened = ExperimentKeeper::open({.directory = files.experiments(),
                                        .restored_max = options.limits.experiments,
                                        .sync = options.durability == Durability::kPower},
                                       clock);
  if (!opened) return make_error(opened.error());
  keeper = std::move(*opened);
  ran = keeper->read_open();
  for (const ExperimentKeeper::Kept& kept : ran) restore_rows(*core, kept);
  return {};
}

Result<void> HeadProcess::Impl::ensure_token(std::string& text, security::TokenRole role, std::string note,
                                             std::vector<Mutation>& rows) {
  if (authorizer->usable(text)) return {};
  auto created =
      authorizer->create_token(authority->fingerprint(), role, std::chrono::milliseconds(0), std::move(note));
  if (!created) return make_error(created.error());
  text = security::token_text(created->token).reveal();
  rows.insert(rows.end(), created->journal.begin(), created->journal.end());
  return {};
}

Result<void> HeadProcess::Impl::ensure_tokens() {
  std::vector<Mutation> rows;
  VOLADOR_TRY(ensure_token(identity.operator_token, security::TokenRole::kOperator, "this machine", rows));
  VOLADOR_TRY(ensure_token(identity.join_token, security::TokenRole::kJoin, "printed at start: nodes", rows));
  VOLADOR_TRY(ensure_token(identity.driver_token, security::TokenRole::kDriver, "printed at start: programs", rows));
  if (!rows.empty()) VOLADOR_TRY(journal->commit(rows));
  return {};
}

// Replaces the revoked token of this machine's command line by a new one. Runs on the core's loop.
void HeadProcess::Impl::on_token_revoked(const std::string& id) {
  control->end_streams_of(id);
  std::vector<Mutation> rows;
  auto renewed = ensure_token(identity.operator_token, security::TokenRole::kOperator, "this machine", rows);
  if (!renewed)
    return log::error("head", "this machine's token was revoked and cannot be renewed",
                      {{"error", renewed.error().message}});
  if (rows.empty()) return;
  runner->store(std::move(rows), [this](const Result<void>& stored) {
    auto published = stored;
    if (published) published = save_identity(files.cluster_json(), identity);
    if (published) published = publish_access();
    if (!published)
      return log::error("head", "this machine's new token cannot be written", {{"error", published.error().message}});
    log::info("head", "this machine's token was revoked and has a successor");
  });
}

Result<void> HeadProcess::Impl::serve() {
  const std::string bind = !options.bind.empty()    ? options.bind
                           : !identity.bind.empty() ? identity.bind
                                                    : std::string(kLoopback);
  const int wanted = options.port != 0                                ? options.port
                     : bind == identity.bind || identity.bind.empty() ? identity.port
                                                                      : 0;
  auto opened = open_port(bind, wanted);
  if (!opened) return make_error(opened.error());
  // gRPC's own listener has no such limits: a thousand idle connections would use up the head's descriptors.
  auto guarded = net::GuardedPort::create(std::move(opened->fd), clock,
                                          {.component = "head", .unproved_receive_bytes = kUnprovedReceiveBytes});
  if (!guarded) return make_error(guarded.error());
  port = std::move(*guarded);
  const std::string dialled = reachable_host(bind);
  identity.bind = bind;
  identity.port = opened->port;
  identity.advertise = join_host_port(dialled, opened->port);

  auto own = authority->issue_head({dialled, "localhost"}, clock.wall());
  if (!own) return make_error(own.error());
  grpc::SslServerCredentialsOptions tls(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  tls.pem_root_certs = own->authority_pem;
  tls.pem_key_cert_pairs.push_back({own->key_pem, own->certificate_pem});
  auto credentials = grpc::SslServerCredentials(tls);
  processor = make_auth_processor(*authorizer);
  credentials->SetAuthMetadataProcessor(processor);

  VOLADOR_TRY(control::prepare_grpc());
  // Affects every server built later in this process; this is the only one.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  // Only reflection has its own threads.
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 1);
  grpc::ResourceQuota quota("head");
  quota.Resize(kMemoryBytesMax);
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             static_cast<int>(control::kKeepaliveTime.count() / 2));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_TSI_MAX_FRAME_SIZE, kTlsRecordBytes);
  builder.AddChannelArgument(GRPC_ARG_TCP_READ_CHUNK_SIZE, kReadBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsMax);
  builder.SetMaxReceiveMessageSize(static_cast<int>(control::kMessageBytesMax));
  builder.SetMaxSendMessageSize(static_cast<int>(control::kMessageBytesMax));
  using Connections = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  acceptor = builder.experimental().AddExternalConnectionAcceptor(Connections::FROM_FD, credentials);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> observers;
  observers.push_back(std::make_unique<ProofObserver>(*port));
  builder.experimental().SetInterceptorCreators(std::move(observers));
  builder.RegisterService(control->service());
  for (OperationService* service :
       {cluster_service.get(), live_service.get(), studies_service.get(), jobs_service.get(), experiments_service.get(),
        katib_service.get(), observations_service.get(), models_service.get(), boards_service.get(),
        users_service.get()})
    builder.RegisterService(service);
  server = builder.BuildAndStart();
  if (!server) {
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format("{}: gRPC cannot serve it; set log.level to debug for its reason.", identity.advertise));
  }
  port->start([this](uint64_t, net::UniqueFd connection, const net::GuardedPort::Peer&) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters given;
    given.listener_fd = port->listener();
    given.fd = connection.release();
    acceptor->HandleNewConnection(&given);
  });
  if (auto* health = server->GetHealthCheckService()) health->SetServingStatus("volador.v1.Cluster", true);
  return {};
}

Result<void> HeadProcess::Impl::publish() {
  VOLADOR_TRY(save_identity(files.cluster_json(), identity));
  ready = {.cluster = identity.name,
           .cluster_id = identity.id,
           .address = identity.advertise,
           .this_machine_only = net::is_loopback(identity.bind),
           .restarted = existed,
           .fingerprint = to_string(authority->fingerprint()),
           .operator_token = identity.operator_token,
           .join_token = identity.join_token,
           .driver_token = identity.driver_token};
  VOLADOR_TRY(publish_access());
  if (options.make_current) return save_current_cluster(options.paths, identity.name);
  return {};
}

Result<void> HeadProcess::Impl::publish_access() const {
  return save_access(options.paths, {.cluster = identity.name,
                                     .cluster_id = to_string(identity.id),
                                     .address = identity.advertise,
                                     .fingerprint = ready.fingerprint,
                                     .token = identity.operator_token});
}

Result<void> HeadProcess::Impl::start() {
  raise_descriptor_limit();
  VOLADOR_TRY(load_or_create_cluster());
  VOLADOR_TRY(open_journal());
  VOLADOR_TRY(load_journal());
  VOLADOR_TRY(load_experiments());
  VOLADOR_TRY(ensure_tokens());
  auto cache = ProgramCache::open(files.directory / "programs", options.programs);
  if (!cache) return make_error(cache.error());
  writer = std::make_unique<JournalWriter>(*journal, JournalWriterOptions{},
                                           [this](Error error) { fail(std::move(error)); });
  loops = std::make_unique<LoopSystem>(1);
  runner = std::make_unique<CoreRunner>(
      CoreRunner::Parts{.core = *core,
                        .writer = *writer,
                        .logs = logs,
                        .clock = clock,
                        .loops = *loops,
                        .keep_experiment = [this](ExperimentNews news) { keeper->keep(std::move(news)); }});
  restore = std::make_unique<ExperimentRestore>(*runner, options.limits);
  programs = std::make_unique<ProgramExchange>(std::move(*cache), *runner, clock, *loops);
  control = std::make_unique<ControlService>(
      ControlService::Parts{.runner = *runner,
                            .authorizer = *authorizer,
                            .programs = *programs,
                            .authority = *authority,
                            .clock = clock,
                            .cluster_name = identity.name,
                            .cluster = identity.id,
                            .on_joined = [this](const std::string& peer) { port->on_proved(plain_peer(peer)); }});
  runner->start();
  access = std::make_unique<HeadAccess>(HeadAccess::Parts{.runner = *runner,
                                                          .authorizer = *authorizer,
                                                          .logs = logs,
                                                          .authority = *authority,
                                                          .clock = clock,
                                                          .files = *programs,
                                                          .audit = *audit,
                                                          .guard = options.guard});
  register_operations();
  VOLADOR_TRY(serve());
  VOLADOR_TRY(publish());
  log::info("head", "serves",
            {{"cluster", identity.name},
             {"cluster_id", to_string(identity.id)},
             {"address", identity.advertise},
             {"store", journal->description()},
             {"generation", identity.generation},
             {"restarted", existed}});
  return {};
}

void HeadProcess::Impl::register_operations() {
  registry.set_absent("Studies", "this head keeps no studies; one that `volador start --head` started does");
  registry.set_absent("Jobs", "this head takes no jobs; one that `volador start --head` started does");
  registry.set_absent("Experiments", "this head runs no experiments; one that `volador start --head` started does");
  for (const char* service : {"Katib", "DBManager"})
    registry.set_absent(service,
                        "this head runs no resources of kind Experiment; one that `volador start --head` started does");
  registry.set_absent("Models", "this head keeps no models; one that `volador start --head` started does");
  registry.set_absent("TensorBoards", "this head runs no experiments; one that `volador start --head` started does");
  for (const std::string& service : options.services_beside)
    registry.set_absent(service, "the head starts or stops; ask again", ErrorCode::kUnavailable);
  registry.set_absent("Live", "this head keeps no rows for others; start it without --no-dashboard");
  serve_cluster(registry, {.runner = *runner,
                           .audit = *audit,
                           .authorizer = *authorizer,
                           .authority = *authority,
                           .clock = clock,
                           .started = clock.now(),
                           .address = [this] { return identity.advertise; },  // Known once a port is bound.
                           .login_link = [this] { return login_link(); },
                           .on_revoked = [this](const std::string& token) { on_token_revoked(token); }});
  if (options.sign_on) {
    sign_on = std::make_unique<SignOn>(SignOn::Parts{
        .options = *options.sign_on,
        .clock = clock,
        .user_of = [this](const SignOnIdentity& who) { return authorizer->user_of(who, *options.sign_on); },
        .admit = [this](const SignOnIdentity& who, std::chrono::seconds valid, const std::string& peer,
                        SignOn::OnDone done) { admission.admit(who, *options.sign_on, valid, peer, std::move(done)); },
        .on_refused = [this](const std::string& user, const std::string& peer,
                             const Error& error) { admission.on_refused(user, peer, error); }});
  }
  admission =
      serve_users(registry, {.runner = *runner,
                             .audit = *audit,
                             .authorizer = *authorizer,
                             .authority = *authority,
                             .clock = clock,
                             .passwords = passwords,
                             .sign_on = sign_on.get(),
                             .on_revoked = [this](const std::string& token) { on_token_revoked(token); },
                             .on_limited = [this](const std::string& token) { control->close_streams_of(token); }});
  log_lines = std::make_unique<LogService>(LogService::Parts{
      .runner = *runner, .logs = logs, .files = *programs, .log_file = files.log(), .guard = options.guard});
  cluster_service = std::make_unique<OperationService>("Cluster", registry, *authorizer);
  cluster_service->stream<v1::LogsRequest, v1::LogLine>(
      "Logs", [this](const auto& by, const v1::LogsRequest& request) { return log_lines->open(by, request); });
  live_service = std::make_unique<OperationService>("Live", registry, *authorizer);
  live_service->stream<v1::WatchRequest, v1::WatchReply>(
      "Watch", [this](const auto& by, const v1::WatchRequest& request) { return watches.open(by, request); });
  studies_service = std::make_unique<OperationService>("Studies", registry, *authorizer);
  jobs_service = std::make_unique<OperationService>("Jobs", registry, *authorizer);
  experiments_service = std::make_unique<OperationService>("Experiments", registry, *authorizer);
  katib_service = std::make_unique<OperationService>("Katib", registry, *authorizer);
  observations_service = std::make_unique<OperationService>("DBManager", registry, *authorizer);
  models_service = std::make_unique<OperationService>("Models", registry, *authorizer);
  boards_service = std::make_unique<OperationService>("TensorBoards", registry, *authorizer);
  users_service = std::make_unique<OperationService>("Users", registry, *authorizer);
}

Result<std::string> HeadProcess::Impl::login_link() {
  std::lock_guard guard(link_mutex);
  if (make_login_link) return make_login_link();
  return make_error(ErrorCode::kNotFound, "this head serves no dashboard; start it without --no-dashboard");
}

void HeadProcess::Impl::fail(Error error) {
  {
    std::lock_guard guard(failure_mutex);
    failure = std::move(error);
  }
  eventfd_write(failure_event, 1);
}

void HeadProcess::Impl::stop() {
  if (restore) restore->cancel();
  passwords.stop();
  if (sign_on) sign_on->stop();
  if (runner) runner->stop();
  if (keeper) keeper->stop();
  if (server && server->GetHealthCheckService() != nullptr) server->GetHealthCheckService()->Shutdown();
  if (port) port->stop();
  if (server) server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  server.reset();
  acceptor.reset();
  port.reset();
  if (programs) programs->stop();
  users_service.reset();
  observations_service.reset();
  katib_service.reset();
  models_service.reset();
  boards_service.reset();
  experiments_service.reset();
  jobs_service.reset();
  studies_service.reset();
  live_service.reset();
  cluster_service.reset();
  log_lines.reset();
  registry.withdraw("Cluster");
  registry.withdraw("Users");
  admission = {};
  access.reset();
  control.reset();
  programs.reset();
  restore.reset();
  runner.reset();
  keeper.reset();
  writer.reset();
  loops.reset();
  core.reset();
  audit.reset();
  authorizer.reset();
  journal.reset();
  process_file.reset();
  lock.reset();
}

HeadProcess::HeadProcess(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HeadProcess::~HeadProcess() = default;

Result<std::unique_ptr<HeadProcess>> HeadProcess::start(HeadOptions options, const Clock& clock, Random& random) {
  auto impl = std::make_unique<Impl>(std::move(options), clock, random);
  VOLADOR_TRY(impl->start());
  return std::unique_ptr<HeadProcess>(new HeadProcess(std::move(impl)));
}

const HeadReady& HeadProcess::ready() const { return impl_->ready; }
void HeadProcess::stop() { impl_->stop(); }
int HeadProcess::failure_fd() const { return impl_->failure_event; }
std::optional<Error> HeadProcess::failure() const {
  std::lock_guard guard(impl_->failure_mutex);
  return impl_->failure;
}

void HeadProcess::restore_experiments(ExperimentRestore::Show show) {
  Impl& impl = *impl_;
  if (!impl.keeper) return;
  impl.restore->set_show(std::move(show));
  impl.restore->show_known(std::exchange(impl.ran, {}));
  impl.keeper->start(
      [restore = impl.restore.get()](const ExperimentKeeper::Kept& kept) { return restore->restore(kept); },
      [runner = impl.runner.get()](DriverId driver, const std::string& experiment, uint64_t number) {
        runner->on_experiment_kept(driver, experiment, number);
      });
}
HeadAccess& HeadProcess::access() { return *impl_->access; }
void HeadProcess::set_login_link(std::function<Result<std::string>()> make) {
  std::lock_guard guard(impl_->link_mutex);
  impl_->make_login_link = std::move(make);
}
void HeadProcess::set_watch(OpenWatch open) { impl_->watches.set_watch(std::move(open)); }
SignOn* HeadProcess::sign_on() { return impl_->sign_on.get(); }
operations::Registry& HeadProcess::registry() { return impl_->registry; }
void HeadProcess::wait(std::initializer_list<int> stop_fds) const {
  std::vector<pollfd> watched{{.fd = failure_fd(), .events = POLLIN, .revents = 0}};
  for (const int fd : stop_fds) watched.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  while (poll(watched.data(), watched.size(), -1) < 0 && errno == EINTR) {
  }
}

void HeadProcess::say_stopped(const std::string& by, std::chrono::milliseconds patience) {
  Impl& impl = *impl_;
  if (!impl.runner || failure()) return;
  protocol::ClusterStopped stopped;
  stopped.set_by(by);
  stopped.set_wall_ms(
      std::chrono::duration_cast<std::chrono::milliseconds>(impl.clock.wall().time_since_epoch()).count());
  log::info("head", "says that it stops for good", {{"by", by}});
  impl.runner->say_stopped(std::move(stopped));
  constexpr std::chrono::milliseconds kLook{5};
  const BootTime end = impl.clock.now() + patience;
  for (BootTime now = impl.clock.now(); now < end; now = impl.clock.now()) {
    const auto connected = std::make_shared<std::promise<size_t>>();
    impl.runner->ask([connected](const HeadCore& core, BootTime) { connected->set_value(core.connected_drivers()); });
    auto told = connected->get_future();
    if (told.wait_for(end - now) != std::future_status::ready || told.get() == 0) return;
    std::this_thread::sleep_for(kLook);
  }
}

Result<void> run_private_head(HeadOptions options, int parent_fd, const StopSignal& asked,
                              const std::function<void(const HeadReady&)>& on_ready) {
  const SystemClock clock;
  SystemRandom random;
  auto head = HeadProcess::start(std::move(options), clock, random);
  if (!head) return make_error(head.error());
  on_ready((*head)->ready());
  (*head)->wait({parent_fd, asked.fd()});
  (*head)->say_stopped(asked.take().by);
  (*head)->stop();
  if (auto failure = (*head)->failure()) return make_error(*failure);
  log::info("head", "stopped");
  return {};
}

}  // namespace volador::head
