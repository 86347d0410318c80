// The life of placement groups: created, placed, lost with their nodes, removed; and the actors in them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "head/kernel/context.h"
#include "head/kernel/tables.h"

namespace volador::head {

class ActorLife;
class ClientModule;
class NodeModule;
class WaitReasons;

class GroupModule {
 public:
  using Cause = protocol::DeathCause;

  GroupModule(Context& context, Tables& tables, ActorLife& actor_life, NodeModule& node_module,
              ClientModule& client_module, const WaitReasons& reasons)
      : context_(context),
        placement_(tables.placement),
        groups_(tables.groups),
        group_waits_(tables.group_waits),
        nodes_(tables.nodes),
        actors_(tables.actors),
        clients_(tables.clients),
        programs_(tables.programs),
        actor_life_(actor_life),
        node_module_(node_module),
        client_module_(client_module),
        reasons_(reasons) {}

  // A row of the journal, before restore().
  void load(protocol::GroupRecord record) { loaded_.push_back(std::move(record)); }
  bool has_loaded() const { return !loaded_.empty(); }
  // Before the actors.
  void restore();
  // After the actors: removes groups whose owner is gone and asks for places for the others.
  void settle_restored();

  void on_create(const ClientRef& client, DriverId driver, const Actor* owner, const protocol::CreateGroup& message);
  void on_find(const ClientRef& client, const protocol::FindGroup& message);
  void on_remove(const ClientRef& client, DriverId driver, const Actor* owner, const protocol::RemoveGroup& message);
  // It waits for groups no longer.
  void client_gone(const ClientRef& client) { group_waits_.client_gone(client); }

  // Gives places to groups, and to actors in them. After each event.
  void place();
  // Writes touched groups to the journal and answers who waits for them. After each event.
  void flush();

  // The node takes new actors again, or no longer.
  void node_changed(NodeId node) { groups_.node_changed(node); }
  // Books again what the node's bundles hold of its resources.
  void readmit(NodeId node);
  // The node is gone. Before its actors' next lives are decided, so that none is placed into what is not there.
  void lose_bundles(NodeId node);
  // Nothing new goes to a draining node: bundles in which nothing runs go elsewhere.
  void move_from_draining(NodeId id);

  void join(GroupId group, ActorId actor) { groups_.join(group, actor); }
  void leave(GroupId group, ActorId actor) { groups_.leave(group, actor); }
  // Puts the actor into the queue of its group.
  void submit(const Actor& actor);
  // What the actor's incarnation draws from its bundle, under an earlier head.
  void adopt(const Actor& actor);
  // Gives back what the incarnation of the actor held, in a group or not.
  void release_place(ActorId actor);
  void lend_cpus(ActorId actor, bool lend);
  // Whether another bundle would take it, where its program could not start in one.
  bool has_another_bundle(const Actor& actor) const;
  // Notes a change of the group in which the actor is: its bundle has more or less room now.
  void note_group_of(ActorId actor);

  void remove(GroupId id, const Cause& cause);
  // Removes it; its actors, which are to die, and the cause that they get.
  std::vector<std::pair<ActorId, Cause>> close(GroupId id, const Cause& cause);

 private:
  Result<std::vector<ResourceSet>> check_spec(const protocol::GroupSpec& spec) const;
  Result<void> create(DriverId driver, const Actor* owner, protocol::GroupSpec spec);
  // Asks anew for what has no place.
  void submit_group(const Group& group);
  void lose_bundle(Group& group, size_t index);
  void tell(const ClientRef& client, const std::string& request_id, GroupId id);
  static protocol::GroupRecord record_of(const Group& group);
  void restore_group(const protocol::GroupRecord& record);

  Context& context_;
  Placement& placement_;
  GroupTable& groups_;
  GroupWaits& group_waits_;
  const NodeTable& nodes_;
  const ActorDirectory& actors_;
  const ClientTable& clients_;
  const ProgramTable& programs_;
  ActorLife& actor_life_;
  NodeModule& node_module_;
  ClientModule& client_module_;
  const WaitReasons& reasons_;
  std::vector<protocol::GroupRecord> loaded_;

  struct Reply {
    ClientRef client;
    std::string request_id;
    GroupId group;
  };
  std::vector<Reply> replies_;  // Sent when the event is settled, so that they tell the outcome.
};

}  // namespace volador::head
