// The checkpoints of actors: one an actor, the newest, until the actor is dead.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstddef>
#include <map>

#include "head/kernel/options.h"
#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"

namespace volador::head {

class CheckpointTable {
 public:
  explicit CheckpointTable(const Limits& limits) : limits_(limits) {}

  // True: it is the actor's newest now. False: a newer one, or this one, was there already.
  // kInvalidArgument: beyond Limits::checkpoint_bytes. kUnavailable: all together would be beyond Limits::checkpoints_bytes.
  [[nodiscard]] Result<bool> keep(ActorId actor, protocol::Checkpoint checkpoint);
  // The actor is dead. False: it had none.
  bool drop(ActorId actor);

  const protocol::Checkpoint* find(ActorId actor) const;
  const std::map<ActorId, protocol::Checkpoint>& all() const { return checkpoints_; }

  void check_invariants() const;

 private:
  const Limits limits_;
  std::map<ActorId, protocol::Checkpoint> checkpoints_;
  size_t bytes_ = 0;
};

}  // namespace volador::head
