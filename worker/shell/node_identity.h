// Identity of this node, stored in its state folder, with a lock that admits one worker at a time.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/ids.h"
#include "runtime/net/unique_fd.h"
#include "runtime/paths.h"
#include "runtime/random.h"
#include "runtime/result.h"

namespace volador::worker {

// Id and lock of a node.
struct NodeIdentity {
  NodeId id;
  bool fresh = false;  // Newly created: no earlier worker of this name ran here.
  net::UniqueFd lock;  // Held during the object's lifetime.
};

// Locks the folder (created if needed) and reads node.json, or writes it with a new id. kUnavailable: a worker of this
// name runs on this machine; names its process. kInvalidArgument: node.json is damaged; names the remedy.
[[nodiscard]] Result<NodeIdentity> claim_node(const NodePaths& paths, const std::string& node_name, Random& random);

// "host:port" with a numeric or named host and a port from 1 to 65535. kInvalidArgument otherwise.
struct HostAndPort {
  std::string host;
  uint16_t port = 0;
};
[[nodiscard]] Result<HostAndPort> parse_host_port(const std::string& address);

// Returns this machine's source address for connections to `peer`; sends nothing. kUnavailable: no route or unknown
// name.
[[nodiscard]] Result<std::string> source_address_towards(const HostAndPort& peer);

}  // namespace volador::worker
