// Blocking sockets of 127.0.0.1, for programs that serve or call others of this machine alone.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::net {

// Listens; port 0 takes any that is free. `type` is added to SOCK_STREAM, as SOCK_NONBLOCK. kUnavailable: says why the
// port cannot be opened.
[[nodiscard]] Result<UniqueFd> listen_on_loopback(uint16_t port, int type = 0);
// Connects; no socket: nothing listens there, or there are no descriptors.
[[nodiscard]] UniqueFd connect_to_loopback(uint16_t port);
// The port that a socket is bound to.
[[nodiscard]] uint16_t port_of(const UniqueFd& socket);
// A port that nothing listened on a moment ago. kUnavailable: there is none.
[[nodiscard]] Result<uint16_t> free_loopback_port();

// Sends all bytes; false: the peer is gone, or its time limit (SO_SNDTIMEO) ended.
[[nodiscard]] bool send_all(int fd, std::string_view bytes);

}  // namespace volador::net
