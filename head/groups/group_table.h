// Placement groups: requested bundles, their nodes, and the actors that draw from them.
// Pure: no clock, thread, I/O or randomness.
//
//                 all bundles placed            a node with bundles is lost, or drains
//   pending ──────────────────────────► ready ─────────────────────────────────────────┐
//                                         ▲                                             ▼
//                                         └──────────────────────────────────────  rescheduling
//   any of them ──────► removed: on request, owner gone; deleted once nothing is held any more
//
// A bundle is reserved on its node as a whole (Placement), and an actor in it draws from the bundle's pool. So a bundle
// of a removed group stays reserved until the last incarnation in it is certainly over.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "head/kernel/options.h"
#include "head/scheduling/front_index.h"
#include "head/scheduling/holder.h"
#include "head/scheduling/placement.h"
#include "head/scheduling/resource_pool.h"
#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"

namespace volador::head {

inline constexpr int kAnyBundle = -1;

// A bundle of a group: its resources, its node and the actors that draw from it.
struct Bundle {
  ResourceSet resources;
  HolderId holder;
  NodeId node;                // Nil: not placed.
  std::vector<int32_t> gpus;  // While placed.
  ResourcePool pool;          // While placed: the pool from which its actors draw.
  std::set<ActorId> drawing;

  bool is_placed() const { return !node.is_nil(); }
};

// A placement group with its spec and current state.
struct Group {
  struct Waiting {
    ActorId actor;
    int bundle = kAnyBundle;
    ResourceSet resources;
    std::string program;
  };
  GroupId id;
  protocol::GroupSpec spec;
  DriverId driver;
  ActorId owner;  // The actor that created it; nil: the driver.
  uint64_t sequence = 0;
  HolderId holder;  // Holder id of the group's placement request.
  protocol::GroupState state = protocol::GROUP_PENDING;
  BootTime waits_since{};      // Start of the wait, while it waits for placement.
  protocol::DeathCause cause;  // Cause of its removal.
  std::vector<Bundle> bundles;
  std::set<ActorId> actors;  // Its actors that are not dead.
  std::map<RequestOrder, Waiting> waiting;
  bool touched = false;

  bool is_removed() const { return state == protocol::GROUP_REMOVED; }
  bool waits_for_places() const { return state == protocol::GROUP_PENDING || state == protocol::GROUP_RESCHEDULING; }
  Reason in_words() const;  // "placement group trainers (52eceb10)"
  std::string display() const { return in_words().text(); }
};

// Owns the groups and their indexes; performs the transitions of the diagram.
class GroupTable {
 public:
  explicit GroupTable(const Limits& limits) : limits_(limits) {}

  // kUnavailable: a limit is reached. kInvalidArgument: another group has the name; the message names it.
  Result<void> check_room(const protocol::GroupSpec& spec) const;
  // Creates a pending group; call check_room() first. `holders`: new ids, one for the group and one per bundle.
  Group& create(protocol::GroupSpec spec, std::vector<ResourceSet> bundles, const std::vector<HolderId>& holders,
                ActorId owner, uint64_t sequence);
  // Removes a pending group without a trace, because the request was refused.
  void withdraw(GroupId id);
  // Restores a group from the journal. Returns false and skips it if it contradicts another record.
  bool restore(Group group);

  // The placement request for the bundles without a node; nullopt: all are placed.
  std::optional<GroupRequest> request_of(const Group& group) const;
  void placed(const PlacedGroup& places);
  // Marks the bundle as not placed; draws from it become void. ready -> rescheduling.
  void lose(Group& group, size_t bundle);
  // -> removed; frees the name. Bundles without running actors become unplaced; returns their reservations.
  std::vector<HolderId> remove(Group& group, const protocol::DeathCause& cause);
  // For a removed group: bundles without running actors become unplaced; returns their reservations.
  std::vector<HolderId> drop_unused(Group& group);
  // Deletes a removed group that holds nothing, except for the cause of its end. Returns true if it was deleted.
  bool forget_if_over(GroupId id);

  // ---- actors in groups ----

  // kNotFound: no such group, or removed. kInvalidArgument: no such bundle. kInfeasible: exceeds the bundle.
  Result<void> check_actor(GroupId group, int bundle, const ResourceSet& resources, const std::string& who) const;
  // Adds the actor to the group until leave().
  void join(GroupId group, ActorId actor);
  void leave(GroupId group, ActorId actor);
  // Queues the actor for room in the group; the actor has joined. Idempotent.
  void submit(GroupId group, const RequestOrder& order, Group::Waiting request);
  bool waits(GroupId group, ActorId actor) const;
  size_t waiting() const { return waiting_; }
  struct PlacedIn {
    Placed placed;
    int bundle = 0;
  };
  // Assigns room in bundles to waiting actors, in order; smaller requests may overtake. Only bundles whose node accepts
  // new actors are used.
  std::vector<PlacedIn> schedule(const std::function<bool(NodeId node, const std::string& program)>& may_start);
  // Restores a draw made under an earlier head. Returns false if there is no room.
  bool adopt(GroupId group, ActorId actor, int bundle, const ResourceSet& held, const std::vector<int32_t>& gpus);
  // Frees the actor's draw. Returns the bundle if it is now empty; the caller decides what to do with it.
  std::optional<std::pair<GroupId, size_t>> release(ActorId actor);
  // An actor that waits for others lends its CPUs to its bundle and later takes them back, even if they are in use: the
  // bundle may be overdrawn for a while, but only within its reservation on the node. Returns the node; nullopt if the
  // actor draws nothing or nothing changed.
  std::optional<NodeId> lend_cpus(ActorId actor) { return move_cpus(actor, true); }
  std::optional<NodeId> take_back_cpus(ActorId actor) { return move_cpus(actor, false); }
  // The node of the bundle from which the actor draws.
  std::optional<NodeId> node_of(ActorId actor) const;
  // Bundles on the node may accept actors again, or lost their place.
  void node_changed(NodeId node);
  // See ResourcePool: for the bundles on the node.
  void set_closed(NodeId node, const std::set<int32_t>& gpus);

  // ---- queries ----

  Group* find(GroupId id);
  const Group* find(GroupId id) const;
  const Group* find(HolderId holder) const;
  const Group* named(std::string_view name) const;
  std::vector<GroupId> of_driver(DriverId driver) const;  // Not detached, created by the driver itself.
  std::vector<GroupId> of_owner(ActorId owner) const;     // Not detached.
  std::vector<std::pair<GroupId, size_t>> on_node(NodeId node) const;
  std::vector<GroupId> starting_with(
      std::string_view text) const;  // By prefix of the id; includes removed groups that are still kept.
  // Cause of the end of a deleted group; empty: unknown group.
  Reason end_of(GroupId id) const;
  const std::map<GroupId, Group>& all() const { return groups_; }

  void touch(Group& group);
  std::vector<GroupId> take_touched();

  void check_invariants() const;

 private:
  struct Draw {
    GroupId group;
    size_t bundle = 0;
    ResourceSet held;
    std::vector<int32_t> gpus;
    ResourceSet lent = {};  // CPUs lent while it waits.
  };
  std::optional<NodeId> move_cpus(ActorId actor, bool lend);
  void index(Group& group);
  void unindex(Group& group);
  void vacate(Group& group, size_t bundle);
  void schedule(Group& group, const std::function<bool(NodeId, const std::string&)>& may_start,
                std::vector<PlacedIn>& out);

  const Limits limits_;
  std::map<GroupId, Group> groups_;
  std::unordered_map<HolderId, GroupId> holders_;  // By the groups' holder ids.
  std::map<std::string, GroupId, std::less<>> names_;
  std::map<NodeId, std::set<std::pair<GroupId, size_t>>> nodes_;
  std::map<DriverId, std::set<GroupId>> drivers_;  // Created by the driver itself.
  std::map<ActorId, std::set<GroupId>> owners_;
  std::unordered_map<ActorId, Draw> draws_;
  std::map<GroupId, Reason> ended_;
  std::deque<GroupId> ended_order_;
  std::set<GroupId> changed_;  // Groups in which schedule() may find room.
  std::vector<GroupId> touched_;
  size_t bundles_ = 0;
  size_t waiting_ = 0;
};

}  // namespace volador::head
