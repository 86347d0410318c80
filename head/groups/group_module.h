// Life cycle of placement groups (creation, placement, loss with nodes, removal) and their actors.
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

  // Loads a journal row; call before restore().
  void load(protocol::GroupRecord record) { loaded_.push_back(std::move(record)); }
  bool has_loaded() const { return !loaded_.empty(); }
  // Call before the actors are restored.
  void restore();
  // Call after the actors are restored: removes groups whose owner is gone and requests placement for the others.
  void settle_restored();

  void on_create(const ClientRef& client, DriverId driver, const Actor* owner, const protocol::CreateGroup& message);
  void on_find(const ClientRef& client, const protocol::FindGroup& message);
  void on_remove(const ClientRef& client, DriverId driver, const Actor* owner, const protocol::RemoveGroup& message);
  // Removes the client's pending waits for groups.
  void client_gone(const ClientRef& client) { group_waits_.client_gone(client); }

  // Places groups, and actors in them. Called after each event.
  void place();
  // Writes touched groups to the journal and replies to waiting clients. Called after each event.
  void flush();

  // The node accepts new actors again, or stopped accepting them.
  void node_changed(NodeId node) { groups_.node_changed(node); }
  // Reserves the resources of the node's bundles again.
  void readmit(NodeId node);
  // Handles the loss of a node. Call before restarting its actors, so that none is placed into a lost bundle.
  void lose_bundles(NodeId node);
  // Moves bundles without running actors away from a node that drains or has a health problem, and from closed GPUs.
  void move_from_closed(NodeId id);
  // See Placement.
  void set_closed_gpus(NodeId id, const std::map<int32_t, Reason>& gpus);

  void join(GroupId group, ActorId actor) { groups_.join(group, actor); }
  void leave(GroupId group, ActorId actor) { groups_.leave(group, actor); }
  // Queues the actor for room in its group.
  void submit(const Actor& actor);
  // Restores what the actor's incarnation drew from its bundle under an earlier head.
  void adopt(const Actor& actor);
  // Releases the resources of the actor's incarnation, in a group or not.
  void release_place(ActorId actor);
  void lend_cpus(ActorId actor, bool lend);
  // Whether the actor could run in another bundle after its program failed to start in one.
  bool has_another_bundle(const Actor& actor) const;
  // Marks the actor's group as changed, since the free room of its bundle changed.
  void note_group_of(ActorId actor);

  void remove(GroupId id, const Cause& cause);
  // Removes the group. Returns its actors, which the caller ends with the given cause.
  std::vector<std::pair<ActorId, Cause>> close(GroupId id, const Cause& cause);

 private:
  Result<std::vector<ResourceSet>> check_spec(const protocol::GroupSpec& spec) const;
  Result<void> create(DriverId driver, const Actor* owner, protocol::GroupSpec spec);
  // Requests placement again for bundles without a node.
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
  std::vector<Reply> replies_;  // Sent when the event is settled, so that they contain the outcome.
};

}  // namespace volador::head
