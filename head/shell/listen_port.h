// Ports to listen on.
#pragma once

#include <string>

#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::head {

// A listening port.
struct OpenPort {
  net::UniqueFd fd;  // A listening, non-blocking socket.
  int port = 0;
};
// Listens on host:port (0: any). kUnavailable: the port is in use; the message names the process if /proc shows it.
// kInvalidArgument: not an address of this machine. kPermissionDenied: a port below 1024.
[[nodiscard]] Result<OpenPort> open_port(const std::string& host, int port);

// The process that listens on the TCP port, such as "volador (pid 4711)"; empty if /proc does not show it.
std::string listener_of(int port);

// The address under which other machines reach this one if `host` is a wildcard; otherwise `host`.
std::string reachable_host(const std::string& host);

// "10.0.0.1:6380", "[::1]:6380".
std::string join_host_port(const std::string& host, int port);

}  // namespace volador::head
