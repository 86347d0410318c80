#include "runtime/actor/unacked_updates.h"

#include "runtime/protocol/trial_points.h"

namespace volador {

void UnackedUpdates::add(protocol::ExperimentUpdate& update) {
  update.set_number(++last_number_);
  bytes_ += update.ByteSizeLong();
  updates_.push_back(update);
  if (bytes_ > bytes_max_) make_room();
}

void UnackedUpdates::kept(const std::string& experiment, uint64_t number) {
  std::erase_if(updates_, [&](const protocol::ExperimentUpdate& one) {
    const bool is_kept = one.number() <= number && one.experiment() == experiment;
    if (is_kept) bytes_ -= one.ByteSizeLong();
    return is_kept;
  });
}

// Reduces to three quarters, since each pass scans all updates.
void UnackedUpdates::make_room() {
  bytes_ = 0;
  for (protocol::ExperimentUpdate& one : updates_) {
    for (auto& trial : *one.mutable_trials()) protocol::release_points(trial);
    bytes_ += one.ByteSizeLong();
  }
  while (bytes_ > bytes_max_ / 4 * 3) {
    bytes_ -= updates_.front().ByteSizeLong();
    updates_.pop_front();
  }
}

}  // namespace volador
