// Counts handles on actors, and ends actors on which nobody holds one any more.
#pragma once

#include "head/kernel/context.h"
#include "head/kernel/tables.h"

namespace volador::head {

class ActorLife;

class HandleModule {
 public:
  HandleModule(Context& context, Tables& tables, ActorLife& life)
      : context_(context),
        handles_(tables.handles),
        actors_(tables.actors),
        nodes_(tables.nodes),
        clients_(tables.clients),
        life_(life) {}

  // A driver holds handles whatever its stream is; an actor's process by its host.
  static Holder holder_of(const ClientRef& client, DriverId driver);
  void on_holds(const Holder& holder, const protocol::HoldActors& message);
  // The holder has ended.
  void gone(const Holder& holder) { handles_.gone(context_.now, holder); }
  // Ends actors that nobody can reach any more. A handle may be on its way to a process whose node reports it a moment
  // later: that report arrives before the node's next heartbeats, since both take the same stream.
  void on_tick();

 private:
  // False: it is a nested actor that is not counted.
  bool meet_light(ActorId actor);
  // Its owner process ends it, after the calls that came before. The owner's node is connected: on_tick() has checked.
  void end_light(ActorId light);

  Context& context_;
  HandleTable& handles_;
  const ActorDirectory& actors_;
  const NodeTable& nodes_;
  const ClientTable& clients_;
  ActorLife& life_;
  bool said_lights_ = false;  // That there are too many nested actors to count.
};

}  // namespace volador::head
