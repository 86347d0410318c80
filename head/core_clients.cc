// Messages of drivers, and of actors through their workers.
#include <fmt/format.h>

#include <algorithm>

#include "head/core_impl.h"
#include "head/wire.h"
#include "runtime/light_id.h"
#include "runtime/paths.h"
#include "runtime/protocol/error_info.h"
#include "runtime/protocol/node_wishes.h"
#include "runtime/quantities.h"

namespace volador::head {
namespace {

constexpr size_t kKillsRemembered = 10'000;
constexpr int kOpeningCallsMax = 16;
constexpr int64_t kStartTimeoutMaxMs = int64_t{1000} * 3600 * 24;
constexpr int64_t kGraceMaxMs = 60'000;
constexpr size_t kSha256Bytes = 32;

size_t bytes_of(const google::protobuf::Map<std::string, std::string>& map) {
  size_t bytes = 0;
  for (const auto& [key, value] : map) bytes += key.size() + value.size();
  return bytes;
}

// Of client_named(): a program without a connection at the moment.
bool is_away(const ClientRef& client) { return client.host.is_nil() && client.session == ClientSession{}; }

}  // namespace

void HeadCore::Impl::refuse(ClientSession session, const Error& error) {
  protocol::HeadMessage message;
  fill(*message.mutable_refused(), error);
  send({.session = session}, std::move(message));
  out_.close_clients.push_back(session);
  event(log::Level::kWarn, "client refused", {{"why", error.message}});
}

void HeadCore::Impl::reply_error(const ClientRef& client, const std::string& request_id, const Error& error) {
  protocol::HeadMessage message;
  message.mutable_reply()->set_request_id(request_id);
  fill(*message.mutable_reply()->mutable_error(), error);
  send(client, std::move(message));
}

void HeadCore::Impl::on_client_message(ClientSession session, const protocol::ClientMessage& message) {
  if (message.kind_case() == protocol::ClientMessage::kHello) {
    on_hello(session, message.hello());
    return;
  }
  const ClientRef client{.session = session, .host = {}};
  const Driver* driver = clients_.find(session);
  if (driver == nullptr) {
    if (message.kind_case() == protocol::ClientMessage::kPing) {
      protocol::HeadMessage answer;
      *answer.mutable_pong() = message.ping();
      send(client, std::move(answer));
    }
    // Also what arrives after Goodbye, or on a stream that another of the same driver replaced.
    return;
  }
  if (message.kind_case() == protocol::ClientMessage::kGoodbye) {
    driver_gone(driver->id, reason("cause.program_ended"));
    return;
  }
  on_request(client, driver->id, nullptr, message);
}

void HeadCore::Impl::on_client_lost(ClientSession session) {
  view_missing_.erase(static_cast<uint64_t>(session));
  group_waits_.client_gone({.session = session, .host = {}});
  Driver* driver = clients_.disconnect(session);
  if (driver == nullptr) return;
  changes_.driver(driver->id);
  driver->gone_at = std::max(now_ + options_.times.driver_grace, window_end_);
  event(log::Level::kInfo, "connection to driver lost", {{"driver", driver->name}, {"id", to_string(driver->id)}});
}

void HeadCore::Impl::on_hello(ClientSession session, const protocol::Hello& hello) {
  if (hello.protocol_version() != options_.protocol_version) {
    refuse(session, {ErrorCode::kInvalidArgument,
                     fmt::format("{} was built with volador {} (protocol {}), the head runs {} (protocol {}); build it with the version of the cluster",
                                 hello.name(), hello.version(), hello.protocol_version(), options_.version, options_.protocol_version)});
    return;
  }
  const auto id = id_from_raw<DriverId>(hello.driver_id());
  const protocol::Program& program = hello.program();
  if (id.is_nil() || hello.name().size() > options_.limits.env_bytes || (!program.sha256().empty() && program.sha256().size() != kSha256Bytes)) {
    refuse(session, {ErrorCode::kInvalidArgument, "Hello: driver_id takes 16 bytes and program.sha256 32; this client sent others"});
    return;
  }
  if (program.ByteSizeLong() > 4 * options_.limits.env_bytes || bytes_of(program.env()) > options_.limits.env_bytes) {
    refuse(session, {ErrorCode::kInvalidArgument,
                     fmt::format("the program's environment and arguments take {}; at most {} travel to its actors: unset large variables",
                                 counted(program.ByteSizeLong(), "byte"), options_.limits.env_bytes)});
    return;
  }
  if (const Driver* other = clients_.find(session); other != nullptr && other->id != id) {
    refuse(session, {ErrorCode::kInvalidArgument, "Hello: this stream belongs to another driver already; open one of its own"});
    return;
  }
  if (const auto named = check_name("namespace", hello.namespace_().empty() ? kDefaultNamespace : hello.namespace_()); !named) {
    refuse(session, named.error());
    return;
  }
  const Driver* known = clients_.find(id);
  const bool repeated = known != nullptr && known->session == session;
  const auto replaced = clients_.connect(session, hello);
  if (!replaced) {
    refuse(session, replaced.error());
    return;
  }
  if (*replaced) {
    view_missing_.erase(static_cast<uint64_t>(**replaced));
    group_waits_.client_gone({.session = **replaced, .host = {}});
    out_.close_clients.push_back(**replaced);
  }
  if (Driver& driver = *clients_.find(id); driver.connected_at == BootTime{}) driver.connected_at = now_;
  if (known == nullptr) {
    protocol::DriverRecord record;
    record.set_driver_id(raw(id));
    record.set_name(hello.name());
    journal(kDriversTable, raw(id), record.SerializeAsString());
  }
  std::string before;
  if (const auto kept = programs_.find(id); kept != programs_.end()) before = kept->second.sha256();
  if (before.empty() || before == program.sha256()) {  // The actors that run keep the program they were spawned with.
    programs_[id] = program;
    journal(kProgramsTable, raw(id), program.SerializeAsString());
  }
  protocol::HeadMessage welcome;
  fill_welcome(*welcome.mutable_welcome(), hello.machine_id());
  send({.session = session}, std::move(welcome));
  view_missing_.insert(static_cast<uint64_t>(session));
  changes_.driver(id);
  if (!repeated) {
    event(log::Level::kInfo, known == nullptr ? "driver connected" : "driver is back",
          {{"driver", hello.name()}, {"id", to_string(id)}, {"pid", std::to_string(hello.pid())}});
  }
}

std::string HeadCore::Impl::node_on(const std::string& machine_id) const {
  if (machine_id.empty()) return {};
  for (const auto& [id, node] : nodes_.all()) {
    if (node.is_member() && node.machine_id == machine_id) return node.name;
  }
  return {};
}

std::vector<HeadCore::Program> HeadCore::Impl::connected_programs() const {
  std::vector<Program> found;
  for (const auto& [id, driver] : clients_.all()) {
    if (driver.session) found.push_back({.name = driver.name, .pid = driver.pid, .node = node_on(driver.machine_id)});
  }
  return found;
}

std::string HeadCore::Impl::program_of(ActorId actor) const {
  const Actor* const known = actors_.find(actor);
  const Driver* const driver = known == nullptr ? nullptr : clients_.find(known->driver);
  return driver == nullptr ? "" : driver->name;
}

std::string HeadCore::Impl::store_socket_on(const std::string& machine_id) const {
  if (machine_id.empty()) return {};
  for (const auto& [id, node] : nodes_.all()) {
    if (node.is_member() && node.machine_id == machine_id && !node.store_socket.empty()) return node.store_socket;
  }
  return {};
}

void HeadCore::Impl::fill_welcome(protocol::Welcome& welcome, const std::string& machine_id) const {
  welcome.set_store_socket(store_socket_on(machine_id));
  welcome.set_cluster_id(raw(options_.cluster_id));
  welcome.set_cluster_name(options_.cluster_name);
  *welcome.mutable_total() = to_message(placement_.ledger().total());
  welcome.set_nodes(static_cast<int32_t>(placement_.ledger().nodes().size()));
}

void HeadCore::Impl::driver_gone(DriverId id, const Reason& why) {
  const Driver* driver = clients_.find(id);
  if (driver == nullptr) return;
  const std::string name = driver->name;
  if (driver->session) {
    view_missing_.erase(static_cast<uint64_t>(*driver->session));
    group_waits_.client_gone({.session = *driver->session, .host = {}});
    for (const ActorId watched : clients_.watched_by({.session = *driver->session})) clients_.unwatch({.session = *driver->session}, watched);
  }
  const std::vector<ActorId> mine = actors_.of_driver(id);
  event(log::Level::kInfo, "driver is gone", {{"driver", name}, {"id", to_string(id)}, {"why", why.text()}, {"actors", std::to_string(mine.size())}}, why);
  const Cause cause = make_cause(Cause::DRIVER_GONE, reason("cause.driver", name, why));
  for (const ActorId actor : mine) die(actor, cause, {});
  for (const GroupId group : groups_.of_driver(id)) remove_group(group, cause);
  handles_.gone(now_, {.driver = id, .host = {}});
  clients_.remove(id);
  changes_.driver(id);
  interrupt_experiments(id);
  journal(kDriversTable, raw(id), std::nullopt);
  drop_program_if_unused(id);
}

void HeadCore::Impl::send_cluster_state() {
  if (now_ - view_sent_ < options_.times.cluster_state) return;
  ClusterView view{.total = placement_.ledger().total(),
                   .used = placement_.ledger().used(),
                   .nodes = placement_.ledger().nodes().size(),
                   .waiting = placement_.waiting() + groups_.waiting()};
  const bool changed = !(view == view_);
  if (!changed && view_missing_.empty()) return;
  view_ = std::move(view);
  view_sent_ = now_;
  protocol::HeadMessage message;
  protocol::ClusterState& state = *message.mutable_cluster();
  *state.mutable_total() = to_message(view_.total);
  *state.mutable_used() = to_message(view_.used);
  state.set_nodes(static_cast<int32_t>(view_.nodes));
  state.set_waiting(static_cast<int32_t>(view_.waiting));
  for (const auto& [id, driver] : clients_.all()) {
    if (!driver.session) continue;
    if (!changed && !view_missing_.contains(static_cast<uint64_t>(*driver.session))) continue;
    state.set_store_socket(store_socket_on(driver.machine_id));
    send({.session = *driver.session}, message);
  }
  view_missing_.clear();
}

// ---- requests ----

void HeadCore::Impl::on_request(const ClientRef& client, DriverId driver, const Actor* owner, const protocol::ClientMessage& message) {
  switch (message.kind_case()) {
    case protocol::ClientMessage::kSpawn: on_spawn(client, driver, owner, message.spawn()); break;
    case protocol::ClientMessage::kKill: on_kill(client, driver, message.kill()); break;
    case protocol::ClientMessage::kFind: on_find(client, own_namespace(driver, owner), message.find()); break;
    case protocol::ClientMessage::kWatch: on_watch(client, message.watch()); break;
    case protocol::ClientMessage::kFailedCall: tell(client, id_from_raw<ActorId>(message.failed_call().actor_id())); break;
    case protocol::ClientMessage::kCheckpoint: on_checkpoint(client, owner, message.checkpoint()); break;
    case protocol::ClientMessage::kHolds: on_holds(holder_of(client, driver), message.holds()); break;
    case protocol::ClientMessage::kRebuild: on_rebuild(client, driver, message.rebuild()); break;
    case protocol::ClientMessage::kRebuilt: on_rebuilt(message.rebuilt()); break;
    case protocol::ClientMessage::kWaits: on_waits(owner, message.waits().waits()); break;
    case protocol::ClientMessage::kCreateGroup: on_create_group(client, driver, owner, message.create_group()); break;
    case protocol::ClientMessage::kFindGroup: on_find_group(client, message.find_group()); break;
    case protocol::ClientMessage::kRemoveGroup: on_remove_group(client, driver, message.remove_group()); break;
    case protocol::ClientMessage::kExperiment: note_experiment(driver, message.experiment()); break;
    case protocol::ClientMessage::kPing: {
      protocol::HeadMessage answer;
      *answer.mutable_pong() = message.ping();
      send(client, std::move(answer));
      break;
    }
    case protocol::ClientMessage::kHello: {  // A host that asks whether the head is there.
      protocol::HeadMessage answer;
      fill_welcome(*answer.mutable_welcome(), {});
      send(client, std::move(answer));
      break;
    }
    case protocol::ClientMessage::kRunFiles:  // For who asked: the shell has passed it on.
    case protocol::ClientMessage::kGoodbye:   // The end of a host is reported by its worker.
    case protocol::ClientMessage::KIND_NOT_SET: break;
  }
}

bool HeadCore::Impl::has_accepted(const protocol::ClientMessage& request) const {
  if (request.has_spawn()) return actors_.find(id_from_raw<ActorId>(request.spawn().spec().actor_id())) != nullptr;
  if (request.has_create_group()) return groups_.find(id_from_raw<GroupId>(request.create_group().request_id())) != nullptr;
  return false;
}

bool HeadCore::Impl::watch(const ClientRef& client, ActorId actor) {
  if (clients_.watch(client, actor)) return true;
  const Error error{ErrorCode::kUnavailable, fmt::format("this client watches {}, its limit; drop handles that are not needed", counted(options_.limits.watches, "actor"))};
  if (client.host.is_nil()) {
    refuse(client.session, error);
  } else {
    event(log::Level::kWarn, "watch refused", {{"actor", to_string(actor)}, {"why", error.message}});
  }
  return false;
}

void HeadCore::Impl::on_spawn(const ClientRef& client, DriverId driver, const Actor* owner, const protocol::SpawnActor& message) {
  const auto id = id_from_raw<ActorId>(message.spec().actor_id());
  if (id.is_nil() || message.request_id() != message.spec().actor_id()) {
    reply_error(client, message.request_id(), {ErrorCode::kInvalidArgument, "SpawnActor: request_id and spec.actor_id must be the same 16 bytes"});
    return;
  }
  if (const Actor* known = actors_.find(id); known == nullptr) {
    if (const auto spawned = spawn(driver, owner, message); !spawned) {
      reply_error(client, message.request_id(), spawned.error());
      return;
    }
    if (message.spec().ends_with_handles() && !message.spec().detached()) {
      handles_.add(now_, id);
      handles_.hold(id, holder_of(client, driver));
    }
  } else if (known->driver != driver) {
    reply_error(client, message.request_id(),
                {ErrorCode::kPermissionDenied, fmt::format("actor {} belongs to another driver; make a new id for a new actor", short_id(id))});
    return;
  }
  if (watch(client, id)) replies_.push_back({client, message.request_id(), id});
}

Result<void> HeadCore::Impl::check_spec(const protocol::ActorSpec& spec, const std::string& program) const {
  const Limits& limits = options_.limits;
  const auto invalid = [](std::string text) { return make_error(ErrorCode::kInvalidArgument, std::move(text)); };
  if (spec.class_name().empty() || spec.class_name().size() > 4 * limits.name_bytes) {
    return invalid(fmt::format("actor class: expected a name of 1 to {} bytes, got {}", 4 * limits.name_bytes, spec.class_name().size()));
  }
  if (spec.name().size() > limits.name_bytes || spec.display().size() > limits.name_bytes) {
    return invalid(fmt::format("actor name: expected at most {} bytes, got {}", limits.name_bytes, std::max(spec.name().size(), spec.display().size())));
  }
  VOLADOR_TRY(check_name("namespace", namespace_of(spec)));
  size_t argument_bytes = spec.arguments().size();
  for (const protocol::OpeningCall& call : spec.opening()) argument_bytes += call.arguments().size();
  if (argument_bytes > limits.argument_bytes) {
    return invalid(fmt::format("arguments of {}: at most {}, got {}; pass large values in calls", spec.class_name(),
                               format_bytes(static_cast<int64_t>(limits.argument_bytes)), format_bytes(static_cast<int64_t>(argument_bytes))));
  }
  if (const size_t other_bytes = spec.ByteSizeLong() - argument_bytes; other_bytes > limits.description_bytes) {
    return invalid(fmt::format("the description of {} without its arguments: at most {}, got {}; name fewer concurrency groups, methods and labels", spec.class_name(),
                               format_bytes(static_cast<int64_t>(limits.description_bytes)), format_bytes(static_cast<int64_t>(other_bytes))));
  }
  if (!spec.opening().empty() && (spec.opening_size() > kOpeningCallsMax || spec.max_restarts() != 0 || spec.isolation() == protocol::ISOLATION_SHARED)) {
    return invalid(fmt::format("opening calls of {}: expected at most {}, of an actor with a process of its own and without restarts; got {}", spec.class_name(), kOpeningCallsMax,
                               spec.opening_size()));
  }
  if (spec.max_restarts() < -1) return invalid(fmt::format("max_restarts: expected -1 (without limit) or more, got {}", spec.max_restarts()));
  if (static_cast<size_t>(spec.wishes().labels_size()) > limits.labels || spec.wishes().ByteSizeLong() > limits.labels * limits.name_bytes) {
    return invalid(fmt::format("node, labels and apart: expected at most {} and {} in all, got {} and {}", counted(limits.labels, "label"),
                               counted(limits.labels * limits.name_bytes, "byte"), spec.wishes().labels_size(), spec.wishes().ByteSizeLong()));
  }
  VOLADOR_TRY(check(wishes_of(spec.wishes())));
  if (bytes_of(spec.env()) > limits.env_bytes) {
    return invalid(fmt::format("env of {}: at most {} bytes, got {}", spec.class_name(), limits.env_bytes, bytes_of(spec.env())));
  }
  if (spec.checkpoint_calls() < 0 || spec.checkpoint_interval_ms() < 0) {
    return invalid(fmt::format("checkpoint_every: expected a number of calls or an interval above 0, got {}, {} ms", counted(spec.checkpoint_calls(), "call"),
                               spec.checkpoint_interval_ms()));
  }
  if (const protocol::HealthCheck& health = spec.health_check();
      spec.has_health_check() && (health.period_ms() < 1 || health.timeout_ms() < 1 || health.turn_timeout_ms() < 0 || health.failures() < 1)) {
    return invalid(fmt::format("health_check of {}: expected a period and a timeout above 0 ms, and 1 failure or more; got {} ms, {} ms and {}", spec.class_name(),
                               health.period_ms(), health.timeout_ms(), health.failures()));
  }
  if (spec.start_timeout_ms() < 0 || spec.start_timeout_ms() > kStartTimeoutMaxMs) {
    return invalid(fmt::format("start_timeout: expected 0 to {} ms, got {}", kStartTimeoutMaxMs, spec.start_timeout_ms()));
  }
  if (spec.isolation() == protocol::ISOLATION_SHARED && (spec.resources().amounts().contains("gpus") || !spec.env().empty())) {
    return invalid(fmt::format("{}: isolation shared goes with neither GPUs nor an environment of its own, which a process has as a whole; ask for process isolation",
                               spec.class_name()));
  }
  if (!spec.program_sha256().empty() && spec.program_sha256() != program) {
    return invalid("program_sha256: an actor runs the program of the driver that spawns it; this spec names another");
  }
  if (!spec.group_id().empty() && spec.has_wishes()) {
    return invalid(fmt::format("{}: an actor in a placement group goes where its bundle is; ask for labels when the group is made, and leave out node and apart", spec.class_name()));
  }
  return {};
}

// Whether a node of now, or its bundle, could ever hold it.
Result<void> HeadCore::Impl::check_place(const protocol::ActorSpec& spec, const ResourceSet& resources) {
  const std::string who = spec.display().empty() ? fmt::format("actor {}", spec.class_name()) : spec.display();
  if (!spec.group_id().empty()) return groups_.check_actor(id_from_raw<GroupId>(spec.group_id()), spec.bundle(), resources, who);
  const PlacementRequest request{.actor = id_from_raw<ActorId>(spec.actor_id()),
                                 .resources = resources,
                                 .wishes = wishes_of(spec.wishes()),
                                 .program = spec.program_sha256()};
  auto feasible = placement_.check_feasible(request, who);
  // While nodes may still come back nobody can say what is too large.
  const bool may_wait = !feasible && feasible.error().code == ErrorCode::kInfeasible && (spec.wait_if_infeasible() || awaited() > 0);
  if (may_wait) return {};
  return feasible;
}

Result<void> HeadCore::Impl::spawn(DriverId driver, const Actor* owner, const protocol::SpawnActor& message) {
  protocol::ActorSpec spec = message.spec();
  const auto program = programs_.find(driver);
  const std::string sha256 = program == programs_.end() ? "" : program->second.sha256();
  VOLADOR_TRY(check_spec(spec, sha256));
  auto resources = resources_from(spec.resources(), options_.limits);
  if (!resources) return make_error(resources.error());
  spec.set_driver_id(raw(driver));
  spec.set_program_sha256(sha256);
  if (spec.namespace_().empty()) spec.set_namespace_(own_namespace(driver, owner));
  VOLADOR_TRY(actors_.check_room(spec));
  VOLADOR_TRY(check_place(spec, *resources));
  Actor& actor = actors_.create(std::move(spec), std::move(*resources), driver, owner == nullptr ? ActorId{} : owner->id, ++sequence_);
  remember(actor);
  if (const GroupId group = group_of(actor); !group.is_nil()) groups_.join(group, actor.id);
  maybe_submit(actor);
  return {};
}

void HeadCore::Impl::on_kill(const ClientRef& client, DriverId driver, const protocol::KillActor& message) {
  Actor* actor = actors_.find(id_from_raw<ActorId>(message.actor_id()));
  if (actor == nullptr) {
    reply_error(client, message.request_id(), {ErrorCode::kNotFound, fmt::format("there is no actor {} (dead ones are forgotten after a while)",
                                                                                 short_id(id_from_raw<ActorId>(message.actor_id())))});
    return;
  }
  const std::chrono::milliseconds grace(std::clamp<int64_t>(message.grace_ms(), 0, kGraceMaxMs));
  const Driver* by = clients_.find(driver);
  const Cause cause = make_cause(Cause::KILLED, by == nullptr ? Reason() : reason("cause.by", by->name));
  if (message.no_restart() || !actor->may_restart()) {
    die(actor->id, cause, grace);
  } else if (kills_.insert(message.request_id() + message.actor_id()).second) {
    kill_order_.push_back(message.request_id() + message.actor_id());
    if (kill_order_.size() > kKillsRemembered) {
      kills_.erase(kill_order_.front());
      kill_order_.pop_front();
    }
    kill_incarnation(*actor, cause, grace);
  }
  replies_.push_back({client, message.request_id(), actor->id});
}

// Of names that it gives and looks for without one: an actor has its own from who made it.
std::string HeadCore::Impl::own_namespace(DriverId driver, const Actor* owner) const {
  if (owner != nullptr) return namespace_of(owner->spec);
  const Driver* known = clients_.find(driver);
  return known == nullptr || known->actor_namespace.empty() ? std::string(kDefaultNamespace) : known->actor_namespace;
}

void HeadCore::Impl::on_find(const ClientRef& client, const std::string& own, const protocol::FindActor& message) {
  const std::string& where = message.namespace_().empty() ? own : message.namespace_();
  const Actor* actor = actors_.named(where, message.name());
  if (actor == nullptr) {
    reply_error(client, message.request_id(),
                {ErrorCode::kNotFound, fmt::format("no living actor is named \"{}\" in namespace \"{}\"; see volador list actors", message.name(), where)});
    return;
  }
  replies_.push_back({client, message.request_id(), actor->id});
}

void HeadCore::Impl::on_watch(const ClientRef& client, const protocol::WatchActor& message) {
  const auto id = id_from_raw<ActorId>(message.actor_id());
  if (message.unwatch()) {
    clients_.unwatch(client, id);
    return;
  }
  if (actors_.find(id) != nullptr && !watch(client, id)) return;
  tell(client, id);
}

// A driver holds as such, whatever its stream; an actor's process by its host.
Holder HeadCore::Impl::holder_of(const ClientRef& client, DriverId driver) {
  if (client.host.is_nil()) return {.driver = driver, .host = {}};
  return {.driver = {}, .host = client.host};
}

void HeadCore::Impl::on_holds(const Holder& holder, const protocol::HoldActors& message) {
  if (!handles_.is_later(holder, message.sequence())) return;
  if (message.all()) handles_.release_all(now_, holder);
  for (const std::string& raw_id : message.lent()) {
    const auto actor = id_from_raw<ActorId>(raw_id);
    if (meet_light(actor)) handles_.lend(now_, actor);
  }
  for (const std::string& raw_id : message.claimed()) {
    const auto actor = id_from_raw<ActorId>(raw_id);
    if (!meet_light(actor)) continue;
    handles_.hold(actor, holder);
    handles_.claim(now_, actor);
  }
  for (const std::string& raw_id : message.held()) {
    const auto actor = id_from_raw<ActorId>(raw_id);
    if (meet_light(actor)) handles_.hold(actor, holder);
  }
  for (const std::string& raw_id : message.passed_on()) {
    const auto light = id_from_raw<ActorId>(raw_id);
    if (!is_light(light) || !meet_light(light)) continue;
    handles_.hold(light, holder);
    handles_.pass_on(light);
  }
  for (const std::string& actor : message.released()) handles_.release(now_, id_from_raw<ActorId>(actor), holder);
}

// False: it is a light actor that is not counted.
bool HeadCore::Impl::meet_light(ActorId actor) {
  if (!is_light(actor)) return true;
  const Actor* home = actors_.find(home_of(actor));
  if (home == nullptr || home->is_dead()) return false;
  if (handles_.meet_light(std::max(now_, window_end_), actor)) return true;
  if (!std::exchange(said_lights_, true)) {
    event(log::Level::kWarn, "light actors that are passed on live until their creator ends", {{"why", fmt::format("handles on {} are counted, the limit", options_.limits.passed_on_lights)}});
  }
  return false;
}

// None: it has ended, or was never there.
std::optional<ClientRef> HeadCore::Impl::client_named(const protocol::ClientName& name) const {
  if (!name.host_id().empty()) {
    const ClientRef host{.session = {}, .host = id_from_raw<HostId>(name.host_id())};
    const Actor* actor = actors_.find_host(host.host);
    return actor != nullptr && !actor->is_dead() ? std::optional(host) : std::nullopt;
  }
  const Driver* driver = clients_.find(id_from_raw<DriverId>(name.driver_id()));
  if (driver == nullptr) return std::nullopt;
  return ClientRef{.session = driver->session.value_or(ClientSession{}), .host = {}};
}

// "program word_count (3f2a90c1)", "process 9c1e04aa of program …": of an actor.
std::string HeadCore::Impl::owner_text(const protocol::ClientName& name) const {
  const auto id = id_from_raw<DriverId>(name.driver_id());
  const Driver* driver = clients_.find(id);
  const std::string program = driver == nullptr ? fmt::format("program {}", short_id(id)) : fmt::format("program {} ({})", driver->name, short_id(id));
  return name.host_id().empty() ? program : fmt::format("process {} of {}", short_id(id_from_raw<HostId>(name.host_id())), program);
}

// To who submitted the object's task. One that is away for a moment is asked again: nothing of it is kept here.
void HeadCore::Impl::on_rebuild(const ClientRef& client, DriverId driver, const protocol::RebuildObject& message) {
  const auto owner = client_named(message.owner());
  if (!owner) {
    protocol::HeadMessage answer;
    answer.mutable_rebuilt()->set_request_id(message.request_id());
    fill(*answer.mutable_rebuilt()->mutable_error(), {ErrorCode::kObjectLost, fmt::format("{}, which submitted the task that brought it, has ended, and nobody else can run that again", owner_text(message.owner()))});
    return send(client, std::move(answer));
  }
  protocol::HeadMessage question;
  *question.mutable_rebuild() = message;
  auto& asker = *question.mutable_rebuild()->mutable_asker();
  asker.Clear();
  if (client.host.is_nil()) {
    asker.set_driver_id(raw(driver));
  } else {
    asker.set_host_id(raw(client.host));
  }
  if (!is_away(*owner)) send(*owner, std::move(question));
}

void HeadCore::Impl::on_rebuilt(const protocol::ObjectRebuilt& message) {
  const auto asker = client_named(message.asker());
  if (!asker || is_away(*asker)) return;
  protocol::HeadMessage answer;
  *answer.mutable_rebuilt() = message;
  send(*asker, std::move(answer));
}

// From a host: on_relay() lets through only the incarnation that may commit. The answer leaves when the row is durable.
void HeadCore::Impl::on_checkpoint(const ClientRef& client, const Actor* actor, const protocol::KeepCheckpoint& message) {
  if (actor == nullptr || message.checkpoint().epoch() != actor->epoch) {
    reply_error(client, message.request_id(), {ErrorCode::kPermissionDenied, "KeepCheckpoint: only an actor's own newest incarnation keeps its checkpoints"});
    return;
  }
  const auto kept = checkpoints_.keep(actor->id, message.checkpoint());
  if (!kept) {
    reply_error(client, message.request_id(), kept.error());
    return;
  }
  if (*kept) journal(kCheckpointsTable, raw(actor->id), message.checkpoint().SerializeAsString());
  protocol::HeadMessage reply;
  reply.mutable_reply()->set_request_id(message.request_id());
  send(client, std::move(reply));
}

// An actor in a group gives its CPUs to others of its bundle.
void HeadCore::Impl::on_waits(const Actor* actor, bool waits) {
  if (actor == nullptr) return;
  if (group_of(*actor).is_nil()) {
    const bool moved = waits ? placement_.lend_cpus(actor->id) : placement_.take_back_cpus(actor->id);
    if (moved) changes_.node(actor->incarnation->node);
  } else if (waits ? groups_.lend_cpus(actor->id) : groups_.take_back_cpus(actor->id)) {
    note_group_of(actor->id);
  }
}

// The actor as it is; one that is not known is dead.
void HeadCore::Impl::tell(const ClientRef& client, ActorId id) {
  protocol::HeadMessage message;
  if (const Actor* actor = actors_.find(id)) {
    *message.mutable_actor() = info_of(*actor);
  } else {
    message.mutable_actor()->set_actor_id(raw(id));
    message.mutable_actor()->set_state(protocol::DEAD);
    message.mutable_actor()->set_version(version_);
    *message.mutable_actor()->mutable_cause() = make_cause(Cause::KIND_UNSPECIFIED, reason("cause.unknown_actor"));
  }
  send(client, std::move(message));
}

}  // namespace volador::head
