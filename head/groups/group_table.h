// Placement groups: what each asks for, where its bundles are held, and which actors draw from them.
// Pure: no clock, thread, I/O or randomness.
//
//                 all bundles placed            a node with bundles is lost, or drains
//   pending ──────────────────────────► ready ─────────────────────────────────────────┐
//                                         ▲                                             ▼
//                                         └──────────────────────────────────────  rescheduling
//   any of them ──────► removed: on request, owner gone; forgotten once nothing is held any more
//
// A bundle is booked on its node as a whole (Placement), and an actor that runs in it takes its part from the bundle's
// pool. So a bundle of a removed group stays booked until the last incarnation in it is certainly over.
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

struct Bundle {
  ResourceSet resources;
  HolderId holder;
  NodeId node;                // Nil: it has no place.
  std::vector<int32_t> gpus;  // While it has one.
  ResourcePool pool;          // The same: what its actors draw from.
  std::set<ActorId> drawing;

  bool is_placed() const { return !node.is_nil(); }
};

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
  ActorId owner;  // The actor that made it; nil: the driver did.
  uint64_t sequence = 0;
  HolderId holder;  // As it waits for places.
  protocol::GroupState state = protocol::GROUP_PENDING;
  BootTime waits_since{};  // Of one that waits for places.
  protocol::DeathCause cause;  // Of its removal.
  std::vector<Bundle> bundles;
  std::set<ActorId> actors;  // In it, not dead.
  std::map<RequestOrder, Waiting> waiting;
  bool touched = false;

  bool is_removed() const { return state == protocol::GROUP_REMOVED; }
  bool waits_for_places() const { return state == protocol::GROUP_PENDING || state == protocol::GROUP_RESCHEDULING; }
  // "placement group trainers (3f2a91c0)".
  Reason in_words() const;  // "placement group trainers (52eceb10)"
  std::string display() const { return in_words().text(); }
};

class GroupTable {
 public:
  explicit GroupTable(const Limits& limits) : limits_(limits) {}

  // kUnavailable: a limit. kInvalidArgument: the name is held by another; names it.
  Result<void> check_room(const protocol::GroupSpec& spec) const;
  // After check_room(): pending. `holders`: new ids, one for the group and one for each bundle.
  Group& create(protocol::GroupSpec spec, std::vector<ResourceSet> bundles, const std::vector<HolderId>& holders,
                ActorId owner, uint64_t sequence);
  // A pending one as if it had never been: it was refused.
  void withdraw(GroupId id);
  // Of the journal. False: the record contradicts another one, it was left out.
  bool restore(Group group);

  // What placement is to be asked for: the bundles without a place; none: nothing.
  std::optional<GroupRequest> request_of(const Group& group) const;
  void placed(const PlacedGroup& places);
  // The bundle has no place any more, what was drawn from it is void; ready -> rescheduling.
  void lose(Group& group, size_t bundle);
  // -> removed: its name is free. The bundles in which nothing runs have lost their places; these were booked.
  std::vector<HolderId> remove(Group& group, const protocol::DeathCause& cause);
  // Of a removed group: bundles in which nothing runs have lost their places; these were booked.
  std::vector<HolderId> drop_unused(Group& group);
  // Removed and nothing is held: forgets it but for its end. True: it was forgotten.
  bool forget_if_over(GroupId id);

  // ---- actors in groups ----

  // kNotFound: no such group, or removed. kInvalidArgument: no such bundle. kInfeasible: more than the bundle has.
  Result<void> check_actor(GroupId group, int bundle, const ResourceSet& resources, const std::string& who) const;
  // The actor belongs to the group until leave().
  void join(GroupId group, ActorId actor);
  void leave(GroupId group, ActorId actor);
  // Waits for room in the group. Repeated: no effect. The actor has joined.
  void submit(GroupId group, const RequestOrder& order, Group::Waiting request);
  bool waits(GroupId group, ActorId actor) const;
  size_t waiting() const { return waiting_; }
  struct PlacedIn {
    Placed placed;
    int bundle = 0;
  };
  // Gives room in bundles to who waits for it, in order; smaller ones pass. Only where a bundle's node may take
  // somebody new.
  std::vector<PlacedIn> schedule(const std::function<bool(NodeId node, const std::string& program)>& may_start);
  // Drawn under an earlier head. False: there is no room.
  bool adopt(GroupId group, ActorId actor, int bundle, const ResourceSet& held, const std::vector<int32_t>& gpus);
  // The actor's part is free again. The bundle, if it now is empty; the caller decides what becomes of it.
  std::optional<std::pair<GroupId, size_t>> release(ActorId actor);
  // An actor that waits for others gives its CPUs back to its bundle, and later takes them again, whether they are there or not: the bundle may
  // be overdrawn for a while. Only within its node's booking of the bundle. The node; none: it draws nothing, or nothing changed.
  std::optional<NodeId> lend_cpus(ActorId actor) { return move_cpus(actor, true); }
  std::optional<NodeId> take_back_cpus(ActorId actor) { return move_cpus(actor, false); }
  // The node of the bundle from which the actor draws.
  std::optional<NodeId> node_of(ActorId actor) const;
  // Bundles on the node may take somebody again, or lost what they had.
  void node_changed(NodeId node);

  // ---- looking ----

  Group* find(GroupId id);
  const Group* find(GroupId id) const;
  const Group* find(HolderId holder) const;
  const Group* named(std::string_view name) const;
  std::vector<GroupId> of_driver(DriverId driver) const;  // Not detached, made by the driver itself.
  std::vector<GroupId> of_owner(ActorId owner) const;     // Not detached.
  std::vector<std::pair<GroupId, size_t>> on_node(NodeId node) const;
  std::vector<GroupId> starting_with(
      std::string_view text) const;  // By the start of their ids; removed ones that are remembered as well.
  // How a group that is forgotten ended; empty: no such group is remembered.
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
    ResourceSet lent = {};  // CPUs, while it waits.
  };
  std::optional<NodeId> move_cpus(ActorId actor, bool lend);
  void index(Group& group);
  void unindex(Group& group);
  void vacate(Group& group, size_t bundle);
  void schedule(Group& group, const std::function<bool(NodeId, const std::string&)>& may_start,
                std::vector<PlacedIn>& out);

  const Limits limits_;
  std::map<GroupId, Group> groups_;
  std::unordered_map<HolderId, GroupId> holders_;  // Of groups.
  std::map<std::string, GroupId, std::less<>> names_;
  std::map<NodeId, std::set<std::pair<GroupId, size_t>>> nodes_;
  std::map<DriverId, std::set<GroupId>> drivers_;  // Made by the driver itself.
  std::map<ActorId, std::set<GroupId>> owners_;
  std::unordered_map<ActorId, Draw> draws_;
  std::map<GroupId, Reason> ended_;
  std::deque<GroupId> ended_order_;
  std::set<GroupId> changed_;  // Where schedule() may find room.
  std::vector<GroupId> touched_;
  size_t bundles_ = 0;
  size_t waiting_ = 0;
};

}  // namespace volador::head
