// End times of node leases: actors of a node may be placed again only after its lease has ended.
// Pure: no clock, thread, I/O or randomness.
//
// A worker lets its hosts commit until (time of sending the newest acknowledged heartbeat) + lease, by its own clock.
// The head counts from the receipt of that heartbeat, which is later, and adds a margin. An earlier head acknowledged
// nothing after its death, so its leases have ended once this head has run for lease + margin. See "Leases and the
// head's clock" in docs/notes.md.
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

  // Call before sending an acknowledgement to the node. A late call (`now` before an earlier one) has no effect.
  void acknowledged(NodeId node, BootTime now);
  // The node ran under an earlier head and may reconnect until `until`. An acknowledgement replaces this entry.
  void await(NodeId node, BootTime until);
  // The node left or was declared dead. Unknown nodes are ignored.
  void forget(NodeId node);
  // The head itself paused and may have unread heartbeats in its queues: every node counts as just heard.
  void own_pause(BootTime now);

  // First time at which the node's lease has ended; the clock's epoch for an unknown node.
  BootTime ends(NodeId node) const;
  // Nodes whose lease has ended, by id. They stay until forget().
  std::vector<NodeId> ended(BootTime now) const;
  size_t size() const { return ends_.size(); }

 private:
  std::chrono::nanoseconds span_;
  std::unordered_map<NodeId, BootTime> ends_;
};

}  // namespace volador::head
