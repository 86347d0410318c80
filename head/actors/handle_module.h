// Counts handles on actors and ends actors without handles.
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

  // A driver holds handles independently of its stream; an actor's process is identified by its host.
  static Holder holder_of(const ClientRef& client, DriverId driver);
  void on_holds(const Holder& holder, const protocol::HoldActors& message);
  // Called when the holder has ended.
  void gone(const Holder& holder) { handles_.gone(context_.now, holder); }
  // Ends unreachable actors. A handle may be in transit to a process whose node reports it shortly after: that report
  // arrives before the node's next heartbeats, since both use the same stream.
  void on_tick();

 private:
  // Returns false for a nested actor that is not counted.
  bool track_nested_actor(ActorId actor);
  // Asks the owner process to end the nested actor after the calls that arrived earlier. The owner's node is connected;
  // on_tick() has checked this.
  void end_light(ActorId light);

  Context& context_;
  HandleTable& handles_;
  const ActorDirectory& actors_;
  const NodeTable& nodes_;
  const ClientTable& clients_;
  ActorLife& life_;
  bool said_lights_ = false;  // The warning that there are too many nested actors to count was logged.
};

}  // namespace volador::head
