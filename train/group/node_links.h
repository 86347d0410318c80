// Links between the leaders of nodes, as train/core/wire_schedule.h wants them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "train/group/node_link.h"

namespace volador::train {

struct NodeWireOptions;

struct NodeLinks {
  std::unique_ptr<LinkKey> key;
  std::map<int, std::unique_ptr<NodeLink>> to;    // By node; this one writes.
  std::map<int, std::unique_ptr<NodeLink>> from;  // By node; this one reads.
  std::vector<std::string> names;                 // What this node has put into the rendezvous.
};

// Returns when this node's links are complete; the other nodes may still lack some. Connections that do not prove that
// they have the key are dropped and logged, and hold up nothing. Errors as join_node_wire().
NodeLinks connect_nodes(const NodeWireOptions& options, NodeLink::Time deadline);

}  // namespace volador::train
