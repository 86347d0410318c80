// The states that an actor went through: the first, and as many of the last as are kept.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/language/reason.h"
#include "runtime/protocol/control.pb.h"

namespace volador::head {

struct StateChange {
  BootTime at{};
  protocol::ActorState state = protocol::PENDING;
  uint64_t epoch = 0;
  NodeId node;      // Where its incarnation is; nil: nowhere.
  Reason why;       // Of an end: its cause. Else empty.
};

class ActorHistory {
 public:
  static constexpr size_t kMost = 16;

  void add(StateChange change) {
    if (changes_.size() == kMost) {
      changes_.erase(changes_.begin() + 1);
      ++left_out_;
    }
    changes_.reserve(changes_.size() + 1);  // Most have four of them, thousands stay as they are.
    changes_.push_back(std::move(change));
  }

  const std::vector<StateChange>& changes() const { return changes_; }
  size_t left_out() const { return left_out_; }  // Between the first and the second of them.

 private:
  std::vector<StateChange> changes_;
  size_t left_out_ = 0;
};

}  // namespace volador::head
