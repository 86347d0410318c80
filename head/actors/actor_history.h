// The states of an actor over time: the first and the most recent ones, up to a limit.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/language/reason.h"
#include "runtime/protocol/control.pb.h"

namespace volador::head {

// One state of an actor, with its start.
struct StateChange {
  BootTime at{};
  protocol::ActorState state = protocol::PENDING;
  uint64_t epoch = 0;
  NodeId node;  // Node of its incarnation; nil: none.
  Reason why;   // Cause of an end; empty otherwise.
};

// Bounded list of state changes.
class ActorHistory {
 public:
  static constexpr size_t kMost = 16;

  void add(StateChange change) {
    if (changes_.size() == kMost) {
      changes_.erase(changes_.begin() + 1);
      ++left_out_;
    }
    // Most actors have only four changes, and thousands of actors never get more.
    changes_.reserve(changes_.size() + 1);
    changes_.push_back(std::move(change));
  }

  const std::vector<StateChange>& changes() const { return changes_; }
  size_t left_out() const { return left_out_; }  // Number of dropped entries between the first and the second.

 private:
  std::vector<StateChange> changes_;
  size_t left_out_ = 0;
};

}  // namespace volador::head
