// When a node's lease has ended for sure: only then may its actors be placed again.
// Pure: no clock, thread, I/O or randomness.
//
// A worker lets its hosts commit until (sending of the newest acknowledged heartbeat) + lease, by its own clock. The head counts
// from the receipt of that heartbeat, which is later, and adds a margin. An earlier head acknowledged nothing after its death, so
// what it granted has ended once this head has run for lease + margin. See "Leases and the head's clock" in docs/notes.md.
#pragma once

#include <chrono>
#include <unordered_map>
#include <vector>

#include "runtime/clock.h"
#include "runtime/ids.h"

namespace volador::head {

class LeaseTable {
 public:
  explicit LeaseTable(std::chrono::nanoseconds lease_and_margin) : span_(lease_and_margin) {}

  // An acknowledgement to this node is about to leave. A late call (now before an earlier one) changes nothing.
  void acknowledged(NodeId node, BootTime now);
  // The node ran under an earlier head: it has until then to come back. An acknowledgement replaces it.
  void await(NodeId node, BootTime until);
  // The node left or was given up. Unknown: no effect.
  void forget(NodeId node);
  // The head itself stood still and may have missed heartbeats that lie in its queues: every node counts as just heard.
  void own_pause(BootTime now);

  // The first moment at which the node's lease has ended; epoch of the clock for an unknown node.
  BootTime ends(NodeId node) const;
  // Nodes whose lease has ended, in the order of their ids. They stay until they are forgotten.
  std::vector<NodeId> ended(BootTime now) const;
  size_t size() const { return ends_.size(); }

 private:
  std::chrono::nanoseconds span_;
  std::unordered_map<NodeId, BootTime> ends_;
};

}  // namespace volador::head
