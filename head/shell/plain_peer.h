// Peers as gRPC names them.
#pragma once

#include <string>
#include <string_view>

namespace volador::head {

// "ipv4:10.0.0.1:6380" and "ipv6:%5B::1%5D:6380" without the scheme and the escapes, as net::GuardedPort names peers.
std::string plain_peer(std::string_view peer);

}  // namespace volador::head
