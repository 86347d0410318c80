// Wire between the leaders of nodes: encrypted, and closed to everyone who is not in the group.
//
// Node 0 draws a key and puts it into the rendezvous, which only members of the cluster can read. Each node listens at
// a port of its own until all have joined; a connection there is worth nothing without the key. TLS 1.3 with that key
// begins each link, AES-128-GCM encrypts what it carries (node_link.h); the schedules of the operations are in
// train/core/wire_schedule.h.
//
// - Sums are equal on all nodes bit for bit. Those of small tensors are added in the order of the nodes; in large ones
//   the order depends on the position of the element.
// - Operations run in the order in which they were started, two threads for all: one sends, one receives. Those of
//   overlapping memory wait for one another; others overlap in time.
// - All nodes start the same operations with tensors of equal size and type. Other sizes end the wire; other types of
//   the same size are not noticed.
// - After the first error every operation fails; the error names the node. The wires of all other nodes fail with it.
// - An operation that was given up may still write to its tensor until `ended` has been called; it keeps the tensor.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "train/group/rendezvous.h"
#include "train/group/shared_group.h"

namespace volador::train {

struct NodeWireOptions {
  int node = 0;                                    // Index of this node, in 0 … nodes - 1.
  int nodes = 1;                                   // Number of nodes.
  std::string address = "127.0.0.1";               // IP address of this node's interface; it listens there.
  std::string run;                                 // Prefix of the keys: run and generation, such as "digits-7/3".
  std::shared_ptr<Rendezvous> rendezvous;          // Table that only the nodes of the group see.
  std::chrono::milliseconds join_timeout{30'000};  // Limit for all nodes to arrive and connect.
  std::chrono::milliseconds timeout{1'800'000};    // Limit of an operation, from its start to its end.
  uint64_t layout = 0;                             // Digest of what must be equal on all nodes; compared on joining.
  const std::atomic<bool>* cancelled = nullptr;    // Ends the joining with GroupAborted; null: never.
  int64_t pieces_per_key = int64_t{1} << 20;       // Pieces (64 KiB or less) that a link encrypts with one key.
};

// Collective: returns when all nodes are connected. Throws GroupAborted (cancelled) and volador::Exception:
// kUnavailable (a node did not arrive or could not be reached), kInvalidArgument (an option is wrong, or the layouts
// differ and the message names the nodes). Other errors of the rendezvous than kTimeout reach the caller unchanged.
//
// Tensors are on the CPU and have any shape and strides; all_reduce takes integers, bools (or), floats and complex
// numbers. is_done() throws GroupAborted. The destructor ends all operations, joins the threads and closes the sockets;
// called by `ended` it leaves that to the thread that calls it.
std::shared_ptr<Wire> join_node_wire(const NodeWireOptions& options);

}  // namespace volador::train
