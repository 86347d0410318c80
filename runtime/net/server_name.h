// The server name that a TLS client asks for, read without taking its bytes off the socket: so a worker's one data port
// can pass the unread socket to the right host.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador::net {

inline constexpr size_t kClientHelloBytesMax = size_t{16} << 10;

// Pure. nullopt: the hello goes on, more bytes are needed. kInvalidArgument: not a TLS client hello, malformed, larger
// than kClientHelloBytesMax, or without exactly one server name of letters, digits, '-', '.', '_'.
[[nodiscard]] Result<std::optional<std::string>> parse_server_name(std::string_view bytes);

// Peeks at a socket; never blocks. nullopt: not enough has arrived; since the bytes stay on the socket, wait for more
// with an edge-triggered epoll or a timer, under a deadline. kUnavailable: the peer closed.
[[nodiscard]] Result<std::optional<std::string>> peek_server_name(int fd);

// Whether a whole client hello waits on the socket, with or without a server name. Peeks as peek_server_name, with its errors.
[[nodiscard]] Result<bool> has_client_hello(int fd);

}  // namespace volador::net
