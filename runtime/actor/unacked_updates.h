// Experiment updates of a driver that the head has not stored yet; resent to a head that comes back. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "runtime/protocol/control.pb.h"

namespace volador {

// Queue of updates without an ExperimentKept. Not thread safe.
class UnackedUpdates {
 public:
  explicit UnackedUpdates(size_t bytes_max = size_t{16} << 20) : bytes_max_(bytes_max) {}

  // Assigns the update's number. Beyond bytes_max all updates lose their points, which are then missing from the
  // cluster's charts; if that is not enough, the oldest updates are dropped.
  void add(protocol::ExperimentUpdate& update);
  // Removes the updates of this experiment up to this number.
  void kept(const std::string& experiment, uint64_t number);
  // In number order.
  const std::deque<protocol::ExperimentUpdate>& all() const { return updates_; }
  size_t bytes() const { return bytes_; }

 private:
  void make_room();

  size_t bytes_max_;
  size_t bytes_ = 0;
  uint64_t last_number_ = 0;
  std::deque<protocol::ExperimentUpdate> updates_;
};

}  // namespace volador
