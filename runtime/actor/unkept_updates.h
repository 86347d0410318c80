// What a driver said of its experiments and the head has not yet on its disk: it is said again to a head that comes
// back. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "runtime/protocol/control.pb.h"

namespace volador {

class UnkeptUpdates {
 public:
  explicit UnkeptUpdates(size_t bytes_max = size_t{16} << 20) : bytes_max_(bytes_max) {}

  // Gives it its number. Beyond bytes_max all lose their points, which are missing from the cluster's curves then;
  // beyond it still, the oldest ones are forgotten.
  void add(protocol::ExperimentUpdate& update);
  // Up to this number, of this experiment.
  void kept(const std::string& experiment, uint64_t number);
  // In the order of their numbers.
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
