// Reads the server name of a TLS client hello without consuming it from the socket, so that the worker's single data
// port can pass the socket to the right host.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador::net {

inline constexpr size_t kClientHelloBytesMax = size_t{16} << 10;

// Pure. nullopt: the hello is incomplete. kInvalidArgument: not a TLS client hello, malformed, larger than
// kClientHelloBytesMax, or without exactly one server name of letters, digits, '-', '.', '_'.
[[nodiscard]] Result<std::optional<std::string>> parse_server_name(std::string_view bytes);

// Peeks at a socket; never blocks. nullopt: incomplete. Since the bytes stay on the socket, wait for more with an
// edge-triggered epoll or a timer, under a deadline. kUnavailable: the peer closed.
[[nodiscard]] Result<std::optional<std::string>> peek_server_name(int fd);

// Whether a whole client hello is on the socket, with or without a server name. Peeks, with the errors of
// peek_server_name.
[[nodiscard]] Result<bool> has_client_hello(int fd);

}  // namespace volador::net
