// Handles driver and actor requests about actors: spawn, kill, find, watch, checkpoints.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_set>

#include "head/kernel/context.h"
#include "head/kernel/tables.h"

namespace volador::head {

class ActorLife;
class ClientModule;
class GroupModule;
class Names;

class ActorRequests {
 public:
  using Cause = protocol::DeathCause;

  ActorRequests(Context& context, Tables& tables, ActorLife& life, GroupModule& group_module,
                ClientModule& client_module, const Names& names)
      : context_(context),
        placement_(tables.placement),
        actors_(tables.actors),
        checkpoints_(tables.checkpoints),
        handles_(tables.handles),
        nodes_(tables.nodes),
        groups_(tables.groups),
        clients_(tables.clients),
        programs_(tables.programs),
        life_(life),
        group_module_(group_module),
        client_module_(client_module),
        names_(names) {}

  // `owner`: the actor that sent the request; null if the driver sent it.
  void on_spawn(const ClientRef& client, DriverId driver, const Actor* owner, const protocol::SpawnActor& message);
  void on_kill(const ClientRef& client, DriverId driver, const Actor* owner, const protocol::KillActor& message);
  void on_find(const ClientRef& client, DriverId driver, const Actor* owner, const protocol::FindActor& message);
  void on_watch(const ClientRef& client, DriverId driver, const Actor* owner, const protocol::WatchActor& message);
  // Stores a checkpoint from a host; ActorHosts::sender() admits only the incarnation that may commit. The reply is
  // sent when the row is durable.
  void on_checkpoint(const ClientRef& client, const Actor* actor, const protocol::KeepCheckpoint& message);
  // Lends the CPUs of a waiting actor in a group to other actors of its bundle.
  void on_waits(const Actor* actor, bool waits);
  // Sends the actor's state; unknown actors, and those that are guarded from the sender, are reported as dead.
  void tell(const ClientRef& client, DriverId driver, const Actor* owner, ActorId id);

  struct Killed {
    ActorId actor;
    std::string display;
    bool restarts = false;
  };
  // Ends an actor, or only its current incarnation if `restart` is set and restarts remain. `name`: as for
  // Names::resolve(). `by`: the requester, for the cause; may be empty. kNotFound: no match, several matches, or the
  // actor has ended; kInvalidArgument: the name denotes a trial, group or node; the message names the command for it.
  Result<Killed> kill(std::string_view name, bool restart, std::string_view by);

 private:
  // The actor as the sender may know it: null also for one of the guard's token (Options::guard), whose address only
  // programs of that token and of operators get, since one can call an actor with its address.
  const Actor* find_for(DriverId driver, const Actor* owner, ActorId id) const;
  Result<void> spawn(DriverId driver, const Actor* owner, const protocol::SpawnActor& message);
  Result<void> check_spec(const protocol::ActorSpec& spec, const std::string& program) const;
  // Checks whether a current node, or the actor's bundle, could ever hold the actor.
  Result<void> check_place(const protocol::ActorSpec& spec, const ResourceSet& resources);
  // The namespace for names without one; an actor inherits it from its owner.
  std::string own_namespace(DriverId driver, const Actor* owner) const;

  Context& context_;
  Placement& placement_;
  ActorDirectory& actors_;
  CheckpointTable& checkpoints_;
  HandleTable& handles_;
  const NodeTable& nodes_;
  const GroupTable& groups_;
  const ClientTable& clients_;
  const ProgramTable& programs_;
  ActorLife& life_;
  GroupModule& group_module_;
  ClientModule& client_module_;
  const Names& names_;

  // Completed kills with restart, so that a repeated request does not kill the next incarnation. Bounded; the oldest
  // are dropped first.
  std::unordered_set<std::string> kills_;
  std::deque<std::string> kill_order_;
};

}  // namespace volador::head
