// The life of actors: placed, started, ended, placed again; and what the journal and watchers learn of it.
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

  // Puts the actor into the queue, unless something holds it back: a former incarnation, the delay of a restart, a
  // dying actor of its name.
  void maybe_submit(Actor& actor);
  // Starts an incarnation where it was placed. `bundle`: of its group.
  void place(const Placed& placed, int bundle = 0);
  void send_start(const Actor& actor);
  // Repeats EndHost until the end is certain. A later call keeps the first cause but may shorten the grace.
  void end_incarnation(Actor& actor, const Cause& cause, std::chrono::milliseconds grace);
  // Called once the incarnation's host process is confirmed gone.
  void incarnation_over(Actor& actor, Cause cause);
  // Ends the incarnation, if there is one, and restarts the actor.
  void kill_incarnation(Actor& actor, const Cause& cause, std::chrono::milliseconds grace);
  // Ends the actor for good and, recursively, the actors and groups that it owns.
  void die(ActorId first, const Cause& cause, std::chrono::milliseconds grace);
  void drop_checkpoint(ActorId actor);
  // Adds the actor's present state to its history.
  void remember(Actor& actor, Reason why = {});
  // Sets the timer of the actor to the next time at which something is due.
  void rearm(Actor& actor);

  void on_tick();
  // After each event: writes touched actors to the journal and tells their watchers.
  void flush();
  // Answers the request with the actor's state once the event is settled; nil: with nothing.
  void reply_when_settled(const ClientRef& client, const std::string& request_id, ActorId actor) {
    replies_.push_back({client, request_id, actor});
  }
  void send_replies();
  // Forgets dead actors beyond the limit.
  void forget_oldest();

  PlacementRequest request_of(const Actor& actor) const;
  protocol::ActorInfo info_of(const Actor& actor) const;

  // Aborts where timers and actors disagree.
  void check_invariants() const;

 private:
  void send_end(Actor& actor);
  void next_life(Actor& actor, const Cause& cause, NodeId node);
  void restart(Actor& actor, const Cause& cause);
  // A time for which the actor waited has come.
  void wake(Actor& actor);
  // The worker keeps the start timeout; this is for one that does not.
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
