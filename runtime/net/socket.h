// Sockets for the call channel: non-blocking, close-on-exec.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::net {

// A Unix, IPv4 or IPv6 address.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

// kInvalidArgument: empty, or longer than the limit of a Unix socket path (107 bytes).
[[nodiscard]] Result<SocketAddress> unix_address(const std::string& path);
// Resolves a host: immediate for numeric addresses, otherwise a lookup that may take seconds. kNotFound: no address.
[[nodiscard]] Result<std::vector<SocketAddress>> resolve(const std::string& host, uint16_t port);

// A connected or connecting socket: when it becomes writable, take_socket_error returns the outcome. kUnavailable:
// refused, or (`busy`) the listener's queue is full.
struct Connecting {
  UniqueFd socket;
  bool in_progress = false;
  bool busy = false;  // Retry a little later.
};
[[nodiscard]] Result<Connecting> start_connect(const SocketAddress& address);
int take_socket_error(int fd);

// Binds and listens, mode 0600. A stale socket file is replaced; errors as for CallServer::create. `type`: SOCK_STREAM
// or SOCK_SEQPACKET.
[[nodiscard]] Result<UniqueFd> listen_unix(const std::string& path, int type = SOCK_STREAM);

// Larger buffers; for TCP also no delay, keep-alive probes, and a limit of 20 s for unacknowledged bytes.
void tune_socket(int fd, bool tcp);

}  // namespace volador::net
