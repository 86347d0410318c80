// Transfers of the collective operations between nodes: which elements each node sends and receives, in which order.
// Pure: no clock, thread, I/O or randomness.
//
// Node i has links to the nodes i + 1, i + 2, i + 4 … and from the nodes i - 1, i - 2, i - 4 …, modulo the number of
// nodes. Each transfer is added to the end of what its link carries. A node makes its sends in their order and its
// receives in theirs, side by side. Nodes that do so never wait for one another in a circle, even if links store
// nothing, because each transfer waits only for transfers of earlier steps and for earlier parts of its own step.
#pragma once

#include <cstdint>
#include <vector>

namespace volador::train {

struct NodePlace {
  int node = 0;   // In 0 … nodes - 1.
  int nodes = 1;  // At least 1.
};

// Nodes to which a node has a link, and nodes that have a link to it; the next node, or the previous one, is the first.
std::vector<int> nodes_sent_to(NodePlace place);
std::vector<int> nodes_received_from(NodePlace place);

// Elements [from, from + count) of an operation's memory, which go over one link; count is at least 1.
struct Transfer {
  int peer = 0;
  int64_t from = 0;
  int64_t count = 0;
  int64_t after = 0;      // Sends: this node's receives that must be complete before.
  bool is_added = false;  // Receives: what arrives is added to the elements; otherwise it replaces them.
};

struct WireSchedule {
  std::vector<Transfer> sends;
  std::vector<Transfer> receives;
};

// All nodes get the blocks of all nodes in ceil(log2(nodes)) steps (Bruck et al., IEEE TPDS 1997). The memory is
// nodes × block elements; the block of node m is the one at (node - m) mod nodes.
WireSchedule gather_schedule(NodePlace place, int64_t block);

// Sum over the nodes in place, with the fewest bytes: ring reduce-scatter, then ring all-gather (Patarasuk and Yuan,
// JPDC 2009). `chunk` is the number of elements that are added and passed on at once, at least 1; it is equal on all
// nodes. Each element is summed once, in an order that depends on its position, and then copied.
WireSchedule sum_schedule(NodePlace place, int64_t elements, int64_t chunk);

// The root's elements go to all nodes: in ceil(log2(nodes)) steps if they are one chunk, otherwise from each node to
// the next in chunks.
WireSchedule broadcast_schedule(NodePlace place, int root, int64_t elements, int64_t chunk);

}  // namespace volador::train
