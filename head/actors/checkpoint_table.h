// The newest checkpoint of each actor that is not dead.
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

  // Returns true if the checkpoint is now the actor's newest, false if this or a newer one was stored already.
  // kInvalidArgument: exceeds Limits::checkpoint_bytes. kUnavailable: the total would exceed Limits::checkpoints_bytes.
  [[nodiscard]] Result<bool> keep(ActorId actor, protocol::Checkpoint checkpoint);
  // Removes the checkpoint of a dead actor. Returns false if there was none.
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
