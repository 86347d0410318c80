// Table of all actors of the cluster: state, incarnations and owner of each.
// Pure: no clock, thread, I/O or randomness.
//
//                    placed              host ready
//   pending ──────────────────► starting ──────────► alive
//      ▲                         │  │  ▲               │
//      │ node lost before ready  │  │  │ placed        │ died, restarts left
//      └─────────────────────────┘  ▼  │               │
//                                restarting ◄──────────┘
//   any of them ──────► dead: killed, owner gone, no restart left, constructor threw
//
// An incarnation is one placement: one host at one epoch. It outlives the actor's state: an actor that was killed or
// must restart keeps its incarnation until its end is certain (HostEnded arrived, its node's lease ended, or its worker
// reconnected without it). Until then it holds its resources and the actor is not placed again. So an actor never has
// more than one incarnation, and epochs only grow.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "head/actors/actor_history.h"
#include "head/kernel/options.h"
#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/resources.h"
#include "runtime/result.h"

namespace volador::head {

// The namespace of an actor's name; "default" for journals that predate namespaces.
inline constexpr std::string_view kDefaultNamespace = "default";
std::string namespace_of(const protocol::ActorSpec& spec);
// Display name of an actor: "hits", or "team-a/hits" outside the default namespace.
std::string full_name(const protocol::ActorSpec& spec);

// The class of actors in which tasks run (runtime/task/task_submitter.cc).
inline constexpr std::string_view kTaskRunnerClass = "volador::TaskRunner";

// One placement of an actor.
struct Incarnation {
  NodeId node;
  // Incarnation of the worker process that received it; a later worker process can neither end it nor report its end.
  std::string worker;
  HostId host;
  std::vector<int32_t> gpus;
  int bundle = 0;    // Index in its placement group, if it has one.
  BootTime since{};  // Time of placement; for a placement by an earlier head, the start of this one.
  // EndHost was sent and is repeated until the end is reported.
  bool ending = false;
  std::chrono::milliseconds end_grace{0};
  protocol::DeathCause end_cause;
  BootTime end_sent{};
  // Set if its worker no longer has it: it is over at this time, with this cause unless the worker reports a more
  // precise one.
  std::optional<BootTime> gone_at;
  protocol::DeathCause gone_cause;
  double cpu_cores = 0;      // Last measured by its node; only for actors with their own process.
  int64_t memory_bytes = 0;  // Same.
  std::string breakpoint;    // Where it waits in a debugger; empty: nowhere.
};

// An actor with its spec and current state.
struct Actor {
  ActorId id;
  protocol::ActorSpec spec;  // Without arguments and environment once dead.
  ResourceSet resources;
  DriverId driver;
  ActorId owner;  // The actor that created it; nil: the driver.
  protocol::ActorState state = protocol::PENDING;
  uint64_t epoch = 0;  // Epoch of the newest incarnation; 0 before the first.
  uint64_t sequence = 0;
  int32_t restarts = 0;
  // Null: none. Stored by pointer because it would dominate the memory of dead actors.
  std::unique_ptr<Incarnation> incarnation;
  protocol::HostAddress address;  // Set while alive.
  HostId shared_process;          // Shared host of the newest incarnation that had one; kept after its end.
  int32_t pid = 0;
  BootTime alive_since{};
  protocol::DeathCause cause;  // Cause of the last death.
  ActorHistory history;        // Since its creation or the start of this head.
  BootTime not_before{};       // Earliest time of the next restart.
  int early_deaths = 0;        // Consecutive.
  int starts_lost = 0;         // Consecutive.
  uint64_t version = 0;
  std::optional<BootTime> wake;  // Its entry in the core's timers.
  bool touched = false;
  enum class Saved : uint8_t { kNothing, kSpec, kTrimmedSpec } saved = Saved::kNothing;  // State of the journal rows.

  bool is_dead() const { return state == protocol::DEAD; }
  bool waits_for_place() const { return state == protocol::PENDING || state == protocol::RESTARTING; }
  bool may_restart() const { return spec.max_restarts() < 0 || restarts < spec.max_restarts(); }
  bool runs_tasks() const { return spec.class_name() == kTaskRunnerClass; }
  GroupId group() const { return id_from_raw<GroupId>(spec.group_id()); }  // Nil: none.
  std::string display() const { return spec.display().empty() ? spec.class_name() : spec.display(); }
};

// Owns the actors and their indexes; performs the transitions of the diagram.
class ActorDirectory {
 public:
  explicit ActorDirectory(const Limits& limits) : limits_(limits) {}

  // kUnavailable: a limit is reached. kInvalidArgument: an actor that is not dead has the name; the message names it.
  Result<void> check_room(const protocol::ActorSpec& spec) const;
  // Creates a pending actor; call check_room() first.
  Actor& create(protocol::ActorSpec spec, ResourceSet resources, DriverId driver, ActorId owner, uint64_t sequence);
  // Restores an actor from the journal. Returns false and skips it if it contradicts another record (same name).
  bool restore(Actor actor);

  // pending, restarting -> starting. The actor has no incarnation.
  void place(Actor& actor, Incarnation incarnation);
  // starting -> alive. Returns false on repeated calls.
  bool ready(Actor& actor, const protocol::HostAddress& address, int32_t pid, BootTime now);
  // starting, alive -> restarting (or pending, if certainly nothing of it ever ran).
  void restart(Actor& actor, const protocol::DeathCause& cause, bool counts);
  void back_to_pending(Actor& actor);
  // -> dead. A successor may take the name, but is not placed before the incarnation is over.
  void die(Actor& actor, const protocol::DeathCause& cause);
  // Records that the incarnation is certainly over.
  void over(Actor& actor);

  Actor* find(ActorId id);
  const Actor* find(ActorId id) const;
  Actor* find_host(HostId host);  // The actor whose incarnation runs in this host.
  const Actor* find_host(HostId host) const;
  const Actor* named(std::string_view actor_namespace, std::string_view name) const;
  // A dead actor with the same name whose incarnation may still run.
  const Actor* lingering(const Actor& successor) const;
  std::vector<ActorId> on_node(NodeId node) const;        // Actors with an incarnation there, by id.
  std::vector<ActorId> children(ActorId owner) const;     // Not dead and not detached.
  std::vector<ActorId> of_driver(DriverId driver) const;  // Not dead, not detached, created by the driver itself.
  bool any_of_program(DriverId driver) const;             // Not dead, with any owner.
  std::vector<ActorId> successors(const Actor& lingering) const;  // Actors that wait for its name.
  const std::map<ActorId, Actor>& all() const { return actors_; }
  size_t not_dead() const { return actors_.size() - dead_.size(); }
  size_t in_state(protocol::ActorState state) const { return states_[static_cast<size_t>(state)]; }

  // Marks the actor as changed, for the journal and watchers.
  void touch(Actor& actor);
  // Returns the actors touched since the last call, in that order.
  std::vector<ActorId> take_touched();
  // Removes dead actors beyond the limit whose incarnation is over, and returns them.
  std::vector<ActorId> forget_oldest();

  void check_invariants() const;

 private:
  using Name = std::pair<std::string, std::string>;  // Namespace, name.
  static Name name_of(const Actor& actor) { return {namespace_of(actor.spec), actor.spec.name()}; }
  void set_state(Actor& actor, protocol::ActorState state);
  void index(Actor& actor);
  static void settle(Actor& actor);

  const Limits limits_;
  std::map<ActorId, Actor> actors_;
  std::unordered_map<HostId, ActorId> hosts_;
  std::unordered_map<NodeId, std::set<ActorId>> nodes_;
  std::map<Name, ActorId> names_;                // Not dead.
  std::map<Name, std::set<ActorId>> lingering_;  // Dead with an incarnation.
  std::map<ActorId, std::set<ActorId>> children_;
  std::map<DriverId, std::set<ActorId>> drivers_;  // Created by the driver itself.
  std::map<DriverId, size_t> program_users_;
  std::set<std::pair<uint64_t, ActorId>> dead_;  // By order of death.
  std::map<ActorId, uint64_t> death_order_;
  std::set<std::pair<uint64_t, ActorId>> forgettable_;  // The subset of dead_ without an incarnation.
  uint64_t deaths_ = 0;
  size_t spec_bytes_ = 0;
  size_t states_[8] = {};
  std::vector<ActorId> touched_;
};

}  // namespace volador::head
