// Life cycle of actors: placement, start, end and restart; writes changes to the journal and notifies watchers.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "head/kernel/context.h"
#include "head/kernel/tables.h"

namespace volador::head {

class ClientModule;
class GroupModule;
class WaitReasons;

// Performs the transitions of actors and their side effects: placement, timers, journal rows, messages.
class ActorLife {
 public:
  using Cause = protocol::DeathCause;

  ActorLife(Context& context, Tables& tables, GroupModule& group_module, ClientModule& client_module,
            const WaitReasons& reasons)
      : context_(context),
        placement_(tables.placement),
        actors_(tables.actors),
        checkpoints_(tables.checkpoints),
        handles_(tables.handles),
        nodes_(tables.nodes),
        groups_(tables.groups),
        clients_(tables.clients),
        programs_(tables.programs),
        group_module_(group_module),
        client_module_(client_module),
        reasons_(reasons) {}

  // Queues the actor for placement unless something delays it: a previous incarnation, its restart delay, or a dying
  // actor with the same name.
  void maybe_submit(Actor& actor);
  // Starts an incarnation on the granted node. `bundle`: index in its group.
  void place(const Placed& placed, int bundle = 0);
  void send_start(const Actor& actor);
  // Repeats EndHost until the end is certain. A later call keeps the first cause but may shorten the grace period.
  void end_incarnation(Actor& actor, const Cause& cause, std::chrono::milliseconds grace);
  // Sends EndHost for an incarnation that is ending. The worker keeps the earliest time of its end.
  void send_end(Actor& actor);
  // Called once the incarnation's host process is confirmed gone.
  void incarnation_over(Actor& actor, Cause cause);
  // Ends the incarnation, if any, and restarts the actor.
  void kill_incarnation(Actor& actor, const Cause& cause, std::chrono::milliseconds grace);
  // Permanently ends the actor and, recursively, the actors and groups it owns.
  void die(ActorId first, const Cause& cause, std::chrono::milliseconds grace);
  void drop_checkpoint(ActorId actor);
  // Adds the actor's current state to its history.
  void remember(Actor& actor, Reason why = {});
  // Sets the actor's timer to the next due time.
  void rearm(Actor& actor);

  void on_tick();
  // Called after each event: writes touched actors to the journal and notifies their watchers.
  void flush();
  // Replies to the request with the actor's state once the event is settled; with an empty reply if `actor` is nil.
  void reply_when_settled(const ClientRef& client, const std::string& request_id, ActorId actor) {
    replies_.push_back({client, request_id, actor});
  }
  void send_replies();
  // Removes dead actors beyond the limit.
  void forget_oldest();

  PlacementRequest request_of(const Actor& actor) const;
  protocol::ActorInfo info_of(const Actor& actor) const;

  // Aborts if timers and actors are inconsistent.
  void check_invariants() const;

 private:
  void next_life(Actor& actor, const Cause& cause, NodeId node);
  void restart(Actor& actor, const Cause& cause);
  // Handles an expired timer of the actor.
  void wake(Actor& actor);
  // Backstop for a worker that does not enforce the start timeout.
  BootTime start_deadline(const Actor& actor) const;
  void flush_actor(Actor& actor);

  Context& context_;
  Placement& placement_;
  ActorDirectory& actors_;
  CheckpointTable& checkpoints_;
  HandleTable& handles_;
  const NodeTable& nodes_;
  const GroupTable& groups_;
  const ClientTable& clients_;
  const ProgramTable& programs_;
  GroupModule& group_module_;
  ClientModule& client_module_;
  const WaitReasons& reasons_;
  std::set<std::pair<BootTime, ActorId>> timers_;

  struct Reply {
    ClientRef client;
    std::string request_id;
    ActorId actor;
  };
  std::vector<Reply> replies_;
};

}  // namespace volador::head
