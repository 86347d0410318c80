// Drivers: their streams, programs and ends; cluster updates sent to all clients.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "head/kernel/context.h"
#include "head/kernel/tables.h"
#include "runtime/security/principal.h"

namespace volador::head {

class ActorLife;
class ExperimentModule;
class GroupModule;
class HandleModule;

class ClientModule {
 public:
  using Cause = protocol::DeathCause;

  ClientModule(Context& context, Tables& tables, ActorLife& actor_life, GroupModule& group_module,
               HandleModule& handle_module, ExperimentModule& experiment_module)
      : context_(context),
        clients_(tables.clients),
        programs_(tables.programs),
        nodes_(tables.nodes),
        placement_(tables.placement),
        actors_(tables.actors),
        groups_(tables.groups),
        actor_life_(actor_life),
        group_module_(group_module),
        handle_module_(handle_module),
        experiment_module_(experiment_module) {}

  // Loads journal rows; call before restore().
  void load(protocol::DriverRecord record) { loaded_.push_back(std::move(record)); }
  void load_program(DriverId driver, protocol::Program program) { programs_[driver] = std::move(program); }
  bool has_loaded() const { return !loaded_.empty(); }
  // Waits until `until` for the journal's drivers to reconnect.
  void restore(BootTime until);
  // Waits for a driver without a journal row to reconnect; known drivers are not changed.
  void expect(DriverId id);
  // The head itself paused: disconnected drivers get their whole grace period again.
  void own_pause();

  void on_hello(ClientSession session, const protocol::Hello& hello, const security::Principal& by);
  void on_ping(const ClientRef& client, const protocol::Ping& ping);
  // Replies to the liveness check of a host.
  void on_host_hello(const ClientRef& client);
  void on_lost(ClientSession session);
  // Ends the driver with its actors and groups.
  void gone(DriverId id, const Reason& why);
  void on_tick();
  // Sends changed cluster totals to the drivers. Called after each event.
  void send_cluster_state();

  // Returns false, and sends the client an error, if it reached its limit of watches.
  bool watch(const ClientRef& client, ActorId actor);
  void unwatch(const ClientRef& client, ActorId actor) { clients_.unwatch(client, actor); }
  void unwatch_all(const ClientRef& client) { clients_.unwatch_all(client); }
  // Removes all watches of a deleted actor.
  void forget(ActorId actor) { clients_.forget(actor); }

  // Sends NeedProgram to a driver that runs the program, because a worker requested it and the head has no copy.
  // kNotFound, kUnavailable: no connected driver has it; the message says what to do.
  Result<void> need_program(const std::string& sha256);
  void drop_program_if_unused(DriverId driver);

 private:
  void refuse(ClientSession session, const Error& error);
  void fill_welcome(protocol::Welcome& welcome, const std::string& machine_id) const;

  Context& context_;
  ClientTable& clients_;
  ProgramTable& programs_;
  const NodeTable& nodes_;
  const Placement& placement_;
  const ActorDirectory& actors_;
  const GroupTable& groups_;
  ActorLife& actor_life_;
  GroupModule& group_module_;
  HandleModule& handle_module_;
  ExperimentModule& experiment_module_;

  struct Totals {
    ResourceSet total;
    ResourceSet used;
    size_t nodes = 0;
    size_t waiting = 0;
    bool operator==(const Totals&) const = default;
  };
  Totals totals_;                      // As last sent to the drivers.
  std::set<uint64_t> totals_missing_;  // Sessions without totals yet.
  BootTime totals_sent_{};
  std::vector<protocol::DriverRecord> loaded_;
};

}  // namespace volador::head
