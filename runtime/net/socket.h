// Sockets as the call channel opens them: non-blocking, close-on-exec.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::net {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

// kInvalidArgument: empty, or longer than a Unix socket's path may be (107 bytes).
[[nodiscard]] Result<SocketAddress> unix_address(const std::string& path);
// The addresses of a host; at once for numeric ones, else a look-up that may take seconds. kNotFound: there is none.
[[nodiscard]] Result<std::vector<SocketAddress>> resolve(const std::string& host, uint16_t port);

// A socket that is connected or about to be: writable once it is; then take_socket_error tells how it went.
// kUnavailable: refused, or (`busy`) the listener's queue is full for the moment.
struct Connecting {
  UniqueFd socket;
  bool in_progress = false;
  bool busy = false;  // Try again a little later.
};
[[nodiscard]] Result<Connecting> start_connect(const SocketAddress& address);
int take_socket_error(int fd);

// Binds and listens, mode 0600. A socket file on which nobody listens is replaced; see CallServer::create for errors.
// `type`: SOCK_STREAM or SOCK_SEQPACKET.
[[nodiscard]] Result<UniqueFd> listen_unix(const std::string& path, int type = SOCK_STREAM);

// Larger buffers; for TCP no delay, keep-alive probes, and an end to unacknowledged bytes after 20 s.
void tune_socket(int fd, bool tcp);

}  // namespace volador::net
