#include "head/actors/checkpoint_table.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/resources.h"

namespace volador::head {

Result<bool> CheckpointTable::keep(ActorId actor, protocol::Checkpoint checkpoint) {
  const auto size = checkpoint.archive().size();
  if (size > limits_.checkpoint_bytes) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("checkpoint of actor {}: at most {} compressed, got {}; keep large state in files of "
                                  "its own and save their paths",
                                  short_id(actor), format_bytes(static_cast<int64_t>(limits_.checkpoint_bytes)),
                                  format_bytes(static_cast<int64_t>(size))));
  }
  const auto found = checkpoints_.find(actor);
  const size_t before = found == checkpoints_.end() ? 0 : found->second.archive().size();
  if (found != checkpoints_.end()) {
    const auto age = [](const protocol::Checkpoint& one) { return std::pair(one.epoch(), one.sequence()); };
    if (age(checkpoint) <= age(found->second)) return false;
  }
  if (bytes_ - before + size > limits_.checkpoints_bytes) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("checkpoint of actor {}: the head keeps at most {} of checkpoints, {} are in use; "
                                  "end actors that are not needed",
                                  short_id(actor), format_bytes(static_cast<int64_t>(limits_.checkpoints_bytes)),
                                  format_bytes(static_cast<int64_t>(bytes_))));
  }
  bytes_ += size;
  bytes_ -= before;
  checkpoints_.insert_or_assign(actor, std::move(checkpoint));
  return true;
}

bool CheckpointTable::drop(ActorId actor) {
  const auto found = checkpoints_.find(actor);
  if (found == checkpoints_.end()) return false;
  bytes_ -= found->second.archive().size();
  checkpoints_.erase(found);
  return true;
}

const protocol::Checkpoint* CheckpointTable::find(ActorId actor) const {
  const auto found = checkpoints_.find(actor);
  return found == checkpoints_.end() ? nullptr : &found->second;
}

void CheckpointTable::check_invariants() const {
  size_t bytes = 0;
  for (const auto& [actor, checkpoint] : checkpoints_) bytes += checkpoint.archive().size();
  VOLADOR_CHECK(bytes == bytes_, "the sum of checkpoints");
}

}  // namespace volador::head
