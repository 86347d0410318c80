// Ports to listen on.
#pragma once

#include <string>

#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::head {

struct OpenPort {
  net::UniqueFd fd;  // Listens, does not block.
  int port = 0;
};
// Listens on host:port (0: any). kUnavailable: in use; names the process where /proc tells. kInvalidArgument: not an address
// of this machine. kPermissionDenied: a port below 1024.
[[nodiscard]] Result<OpenPort> open_port(const std::string& host, int port);

// "volador (pid 4711)" of the process that listens on the TCP port; empty where /proc does not tell.
std::string listener_of(int port);

// The address that other machines reach this one by, where `host` is a wildcard; else `host` itself.
std::string reachable_host(const std::string& host);

// "10.0.0.1:6380", "[::1]:6380".
std::string join_host_port(const std::string& host, int port);

}  // namespace volador::head
