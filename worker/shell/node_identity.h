// Who this node is, kept in its state folder, and the lock that lets one worker at a time be it.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/ids.h"
#include "runtime/net/unique_fd.h"
#include "runtime/paths.h"
#include "runtime/random.h"
#include "runtime/result.h"

namespace volador::worker {

struct NodeIdentity {
  NodeId id;
  bool fresh = false;  // Made now: no earlier worker of this name ran here.
  net::UniqueFd lock;  // Held while this lives.
};

// Locks the folder (made where it is missing) and reads node.json, or writes it with a new id.
// kUnavailable: a worker of this name runs on this machine; names its process. kInvalidArgument: node.json is damaged,
// says what to do.
[[nodiscard]] Result<NodeIdentity> claim_node(const NodePaths& paths, const std::string& node_name, Random& random);

// "host:port" of a numeric or named address; the port from 1 to 65535. kInvalidArgument otherwise.
struct HostAndPort {
  std::string host;
  uint16_t port = 0;
};
[[nodiscard]] Result<HostAndPort> parse_host_port(const std::string& address);

// The address that this machine talks from when it talks to that one; nothing is sent. kUnavailable: no route or no
// such name.
[[nodiscard]] Result<std::string> source_address_towards(const HostAndPort& peer);

}  // namespace volador::worker
