// Every actor of the cluster: its state, its incarnations and who it belongs to.
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
// An incarnation is what was placed: one host at one epoch. It outlives its state: an actor that was killed or has to start
// anew keeps it until its end is certain (HostEnded, its node's lease over, or its worker came back without it), holds its
// resources so long, and is not placed again before. So there is never more than one incarnation, and epochs only grow.
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

// The namespace of an actor's name; journals of before there were any have "default".
inline constexpr std::string_view kDefaultNamespace = "default";
std::string namespace_of(const protocol::ActorSpec& spec);
// Name of an actor as people read it: "hits", or "team-a/hits" of another namespace than the default one.
std::string full_name(const protocol::ActorSpec& spec);

// The class of actors in which tasks run (runtime/task/task_submitter.cc).
inline constexpr std::string_view kTaskRunnerClass = "volador::TaskRunner";

struct Incarnation {
  NodeId node;
  std::string worker;  // Incarnation of the worker process that got it: a later one can neither end it nor tell its end.
  HostId host;
  std::vector<int32_t> gpus;
  int bundle = 0;    // Of its placement group, where it has one.
  BootTime since{};  // It was placed; of an earlier head: this one's start.
  // EndHost was sent and is repeated until the end is reported.
  bool ending = false;
  std::chrono::milliseconds end_grace{0};
  protocol::DeathCause end_cause;
  BootTime end_sent{};
  // Its worker does not have it any more: certainly over then, of this cause, unless its worker tells a better one.
  std::optional<BootTime> gone_at;
  protocol::DeathCause gone_cause;
  double cpu_cores = 0;      // As its node measured it last; of an actor with a process of its own.
  int64_t memory_bytes = 0;  // Likewise.
};

struct Actor {
  ActorId id;
  protocol::ActorSpec spec;  // Once dead without arguments and environment.
  ResourceSet resources;
  DriverId driver;
  ActorId owner;  // The actor that made it; nil: the driver did.
  protocol::ActorState state = protocol::PENDING;
  uint64_t epoch = 0;  // Of the newest incarnation; 0 before the first.
  uint64_t sequence = 0;
  int32_t restarts = 0;
  std::unique_ptr<Incarnation> incarnation;  // Null: none; of thousands of dead actors it would be most of what they take.
  protocol::HostAddress address;  // While alive.
  HostId shared_process;          // Of the newest incarnation that lived in a shared host; kept after its end.
  int32_t pid = 0;
  BootTime alive_since{};
  protocol::DeathCause cause;  // Of the last death.
  ActorHistory history;        // Since it was made, or since this head started.
  BootTime not_before{};       // A restart waits for it.
  int early_deaths = 0;        // In a row.
  int starts_lost = 0;         // In a row.
  uint64_t version = 0;
  std::optional<BootTime> wake;  // As it stands in the core's timers.
  bool touched = false;
  enum class Saved : uint8_t { kNothing, kSpec, kTrimmedSpec } saved = Saved::kNothing;  // In the journal.

  bool is_dead() const { return state == protocol::DEAD; }
  bool waits_for_place() const { return state == protocol::PENDING || state == protocol::RESTARTING; }
  bool may_restart() const { return spec.max_restarts() < 0 || restarts < spec.max_restarts(); }
  bool runs_tasks() const { return spec.class_name() == kTaskRunnerClass; }
  GroupId group() const { return id_from_raw<GroupId>(spec.group_id()); }  // Nil: none.
  std::string display() const { return spec.display().empty() ? spec.class_name() : spec.display(); }
};

class ActorDirectory {
 public:
  explicit ActorDirectory(const Limits& limits) : limits_(limits) {}

  // kUnavailable: a limit. kInvalidArgument: the name is held by another that is not dead; names it.
  Result<void> check_room(const protocol::ActorSpec& spec) const;
  // After check_room(): pending.
  Actor& create(protocol::ActorSpec spec, ResourceSet resources, DriverId driver, ActorId owner, uint64_t sequence);
  // Of the journal. False: the record contradicts another one (same name), it was left out.
  bool restore(Actor actor);

  // pending, restarting -> starting. The actor has no incarnation.
  void place(Actor& actor, Incarnation incarnation);
  // starting -> alive. Repeated: false.
  bool ready(Actor& actor, const protocol::HostAddress& address, int32_t pid, BootTime now);
  // starting, alive -> restarting (or pending, where nothing of it ever ran for sure).
  void restart(Actor& actor, const protocol::DeathCause& cause, bool counts);
  void back_to_pending(Actor& actor);
  // -> dead. Its name is free for a successor, which is not placed before the incarnation is over.
  void die(Actor& actor, const protocol::DeathCause& cause);
  // The incarnation is certainly over.
  void over(Actor& actor);

  Actor* find(ActorId id);
  const Actor* find(ActorId id) const;
  Actor* find_host(HostId host);  // Whose incarnation it is.
  const Actor* find_host(HostId host) const;
  const Actor* named(std::string_view actor_namespace, std::string_view name) const;
  // A dead actor of the name of this one whose incarnation may still run.
  const Actor* lingering(const Actor& successor) const;
  std::vector<ActorId> on_node(NodeId node) const;          // With an incarnation there, by id.
  std::vector<ActorId> children(ActorId owner) const;       // Not dead and not detached.
  std::vector<ActorId> of_driver(DriverId driver) const;    // Not dead, not detached, made by the driver itself.
  bool any_of_program(DriverId driver) const;               // Not dead, whoever made it.
  std::vector<ActorId> successors(const Actor& lingering) const;  // Waiting under its name.
  const std::map<ActorId, Actor>& all() const { return actors_; }
  size_t not_dead() const { return actors_.size() - dead_.size(); }
  size_t in_state(protocol::ActorState state) const { return states_[static_cast<size_t>(state)]; }

  // Marks a change that the journal or watchers must learn.
  void touch(Actor& actor);
  // Touched since the last call, in that order.
  std::vector<ActorId> take_touched();
  // Dead actors beyond the limit whose incarnation is over: they are forgotten now.
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
  std::map<Name, ActorId> names_;                 // Not dead.
  std::map<Name, std::set<ActorId>> lingering_;  // Dead with an incarnation.
  std::map<ActorId, std::set<ActorId>> children_;
  std::map<DriverId, std::set<ActorId>> drivers_;  // Made by the driver itself.
  std::map<DriverId, size_t> program_users_;
  std::set<std::pair<uint64_t, ActorId>> dead_;  // In the order of death.
  std::map<ActorId, uint64_t> death_order_;
  std::set<std::pair<uint64_t, ActorId>> forgettable_;  // Of dead_: those without an incarnation.
  uint64_t deaths_ = 0;
  size_t spec_bytes_ = 0;
  size_t states_[8] = {};
  std::vector<ActorId> touched_;
};

}  // namespace volador::head
