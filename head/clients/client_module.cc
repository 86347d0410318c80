#include "head/clients/client_module.h"

#include <fmt/format.h>

#include <algorithm>

#include "head/actors/actor_life.h"
#include "head/actors/handle_module.h"
#include "head/experiments/experiment_module.h"
#include "head/groups/group_module.h"
#include "head/kernel/ownership.h"
#include "head/kernel/wire.h"
#include "runtime/paths.h"
#include "runtime/protocol/error_info.h"
#include "runtime/quantities.h"

namespace volador::head {
namespace {

constexpr size_t kSha256Bytes = 32;

}  // namespace

void ClientModule::refuse(ClientSession session, const Error& error) {
  protocol::HeadMessage message;
  fill(*message.mutable_refused(), error);
  context_.send({.session = session}, std::move(message));
  context_.actions.close_clients.push_back(session);
  context_.event(log::Level::kWarn, "client refused", {{"why", error.message}});
}

void ClientModule::on_hello(ClientSession session, const protocol::Hello& hello, const security::Principal& by) {
  if (hello.protocol_version() != context_.options.protocol_version) {
    refuse(session,
           {ErrorCode::kInvalidArgument, fmt::format("{} was built with volador {} (protocol {}), the head runs {} "
                                                     "(protocol {}); build it with the version of the cluster",
                                                     hello.name(), hello.version(), hello.protocol_version(),
                                                     context_.options.version, context_.options.protocol_version)});
    return;
  }
  const auto id = id_from_raw<DriverId>(hello.driver_id());
  const protocol::Program& program = hello.program();
  if (id.is_nil() || hello.name().size() > context_.options.limits.env_bytes ||
      (!program.sha256().empty() && program.sha256().size() != kSha256Bytes)) {
    refuse(session, {ErrorCode::kInvalidArgument,
                     "Hello: driver_id takes 16 bytes and program.sha256 32; this client sent others"});
    return;
  }
  if (program.ByteSizeLong() > 4 * context_.options.limits.env_bytes ||
      bytes_of(program.env()) > context_.options.limits.env_bytes) {
    refuse(
        session,
        {ErrorCode::kInvalidArgument,
         fmt::format(
             "the program's environment and arguments take {}; at most {} travel to its actors: unset large variables",
             counted(program.ByteSizeLong(), "byte"), context_.options.limits.env_bytes)});
    return;
  }
  if (const Driver* other = clients_.find(session); other != nullptr && other->id != id) {
    refuse(session,
           {ErrorCode::kInvalidArgument, "Hello: this stream belongs to another driver already; open one of its own"});
    return;
  }
  if (const auto named = check_name("namespace", hello.namespace_().empty() ? kDefaultNamespace : hello.namespace_());
      !named) {
    refuse(session, named.error());
    return;
  }
  const Driver* known = clients_.find(id);
  const protocol::Owner owner = owner_of(by);
  if (known != nullptr && !known->owner.token_id().empty() && known->owner.token_id() != owner.token_id()) {
    refuse(session, {ErrorCode::kPermissionDenied,
                     fmt::format("Hello: driver {} connected with token {} before; it comes back with the same token",
                                 short_id(id), known->owner.token_id())});
    return;
  }
  const auto& guard = context_.options.guard;
  if (guard && guard->owns(id) && owner.token_id() != guard->token_id()) {
    refuse(session,
           {ErrorCode::kPermissionDenied,
            fmt::format("Hello: driver {} belongs to the cluster; connect with an id of your own", short_id(id))});
    return;
  }
  const bool repeated = known != nullptr && known->session == session;
  const auto replaced = clients_.connect(session, hello);
  if (!replaced) {
    refuse(session, replaced.error());
    return;
  }
  if (*replaced) {
    totals_missing_.erase(static_cast<uint64_t>(**replaced));
    group_module_.client_gone({.session = **replaced, .host = {}});
    context_.actions.close_clients.push_back(**replaced);
  }
  Driver& driver = *clients_.find(id);
  if (driver.connected_at == BootTime{}) driver.connected_at = context_.now;
  const bool owner_is_new = driver.owner.token_id() != owner.token_id();
  driver.owner = owner;
  if (known == nullptr || owner_is_new) {
    protocol::DriverRecord record;
    record.set_driver_id(raw(id));
    record.set_name(hello.name());
    assign_owner(record, owner);
    context_.journal(kDriversTable, raw(id), record.SerializeAsString());
  }
  std::string before;
  if (const auto kept = programs_.find(id); kept != programs_.end()) before = kept->second.sha256();
  if (before.empty() || before == program.sha256()) {  // Running actors keep the program they were spawned with.
    programs_[id] = program;
    context_.journal(kProgramsTable, raw(id), program.SerializeAsString());
  }
  protocol::HeadMessage welcome;
  fill_welcome(*welcome.mutable_welcome(), hello.machine_id());
  context_.send({.session = session}, std::move(welcome));
  totals_missing_.insert(static_cast<uint64_t>(session));
  context_.changes.driver(id);
  if (!repeated) {
    context_.event(log::Level::kInfo, known == nullptr ? "driver connected" : "driver is back",
                   {{"driver", hello.name()}, {"id", to_string(id)}, {"pid", std::to_string(hello.pid())}});
  }
}

void ClientModule::on_lost(ClientSession session) {
  totals_missing_.erase(static_cast<uint64_t>(session));
  group_module_.client_gone({.session = session, .host = {}});
  Driver* driver = clients_.disconnect(session);
  if (driver == nullptr) return;
  context_.changes.driver(driver->id);
  driver->gone_at = std::max(context_.now + context_.options.times.driver_grace, context_.window_end);
  context_.event(log::Level::kInfo, "connection to driver lost",
                 {{"driver", driver->name}, {"id", to_string(driver->id)}});
}

void ClientModule::gone(DriverId id, const Reason& why) {
  const Driver* driver = clients_.find(id);
  if (driver == nullptr) return;
  const std::string name = driver->name;
  if (driver->session) {
    totals_missing_.erase(static_cast<uint64_t>(*driver->session));
    group_module_.client_gone({.session = *driver->session, .host = {}});
    for (const ActorId watched : clients_.watched_by({.session = *driver->session}))
      clients_.unwatch({.session = *driver->session}, watched);
  }
  const std::vector<ActorId> mine = actors_.of_driver(id);
  context_.event(
      log::Level::kInfo, "driver is gone",
      {{"driver", name}, {"id", to_string(id)}, {"why", why.text()}, {"actors", std::to_string(mine.size())}}, why);
  const Cause cause = make_cause(Cause::DRIVER_GONE, reason("cause.driver", name, why));
  for (const ActorId actor : mine) actor_life_.die(actor, cause, {});
  for (const GroupId group : groups_.of_driver(id)) group_module_.remove(group, cause);
  handle_module_.gone({.driver = id, .host = {}});
  clients_.remove(id);
  context_.changes.driver(id);
  experiment_module_.interrupt(id);
  context_.journal(kDriversTable, raw(id), std::nullopt);
  drop_program_if_unused(id);
}

Result<void> ClientModule::need_program(const std::string& sha256) {
  bool known = false;
  bool asked = false;
  for (const auto& [id, program] : programs_) {
    if (program.sha256() != sha256) continue;
    known = true;
    const Driver* driver = clients_.find(id);
    if (driver == nullptr || !driver->session) continue;
    protocol::HeadMessage message;
    message.mutable_need_program()->set_sha256(sha256);
    context_.send({.session = *driver->session}, std::move(message));
    asked = true;
  }
  if (asked) return {};
  if (known) {
    return make_error(ErrorCode::kUnavailable,
                      "the program that this actor runs is not here, and none of the drivers that have it is "
                      "connected; start one of them again");
  }
  return make_error(ErrorCode::kNotFound, "no driver and no actor of this cluster runs that program");
}

void ClientModule::drop_program_if_unused(DriverId driver) {
  if (clients_.find(driver) != nullptr || actors_.any_of_program(driver)) return;
  if (programs_.erase(driver) > 0) context_.journal(kProgramsTable, raw(driver), std::nullopt);
}

bool ClientModule::watch(const ClientRef& client, ActorId actor) {
  if (clients_.watch(client, actor)) return true;
  const Error error{ErrorCode::kUnavailable,
                    fmt::format("this client watches {}, its limit; drop handles that are not needed",
                                counted(context_.options.limits.watches, "actor"))};
  if (client.host.is_nil()) {
    refuse(client.session, error);
  } else {
    context_.event(log::Level::kWarn, "watch refused", {{"actor", to_string(actor)}, {"why", error.message}});
  }
  return false;
}

void ClientModule::fill_welcome(protocol::Welcome& welcome, const std::string& machine_id) const {
  welcome.set_store_socket(nodes_.store_socket_on(machine_id));
  welcome.set_cluster_id(raw(context_.options.cluster_id));
  welcome.set_cluster_name(context_.options.cluster_name);
  *welcome.mutable_total() = to_message(placement_.ledger().total());
  welcome.set_nodes(static_cast<int32_t>(placement_.ledger().nodes().size()));
}

void ClientModule::send_cluster_state() {
  if (context_.now - totals_sent_ < context_.options.times.cluster_state) return;
  Totals totals{.total = placement_.ledger().total(),
                .used = placement_.ledger().used(),
                .nodes = placement_.ledger().nodes().size(),
                .waiting = placement_.waiting() + groups_.waiting()};
  const bool changed = !(totals == totals_);
  if (!changed && totals_missing_.empty()) return;
  totals_ = std::move(totals);
  totals_sent_ = context_.now;
  protocol::HeadMessage message;
  protocol::ClusterState& state = *message.mutable_cluster();
  *state.mutable_total() = to_message(totals_.total);
  *state.mutable_used() = to_message(totals_.used);
  state.set_nodes(static_cast<int32_t>(totals_.nodes));
  state.set_waiting(static_cast<int32_t>(totals_.waiting));
  for (const auto& [id, driver] : clients_.all()) {
    if (!driver.session) continue;
    if (!changed && !totals_missing_.contains(static_cast<uint64_t>(*driver.session))) continue;
    state.set_store_socket(nodes_.store_socket_on(driver.machine_id));
    context_.send({.session = *driver.session}, message);
  }
  totals_missing_.clear();
}

void ClientModule::on_ping(const ClientRef& client, const protocol::Ping& ping) {
  protocol::HeadMessage answer;
  *answer.mutable_pong() = ping;
  context_.send(client, std::move(answer));
}

void ClientModule::on_host_hello(const ClientRef& client) {
  protocol::HeadMessage answer;
  fill_welcome(*answer.mutable_welcome(), {});
  context_.send(client, std::move(answer));
}

void ClientModule::on_tick() {
  std::vector<DriverId> ended;
  for (const auto& [id, driver] : clients_.all()) {
    if (!driver.session && driver.gone_at <= context_.now) ended.push_back(id);
  }
  for (const DriverId id : ended) gone(id, reason("cause.connection_lost"));
}

void ClientModule::own_pause() {
  for (auto& [id, driver] : clients_.all()) {
    if (!driver.session) driver.gone_at = std::max(driver.gone_at, context_.now + context_.options.times.driver_grace);
  }
}

void ClientModule::restore(BootTime until) {
  for (const protocol::DriverRecord& record : loaded_) {
    const auto id = id_from_raw<DriverId>(record.driver_id());
    if (!id.is_nil()) clients_.restore(id, record.name(), until).owner = record.owner();
  }
  loaded_.clear();
}

void ClientModule::expect(DriverId id) {
  if (clients_.find(id) == nullptr) clients_.restore(id, "unknown", context_.window_end);
}

}  // namespace volador::head
