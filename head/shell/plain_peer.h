// Conversion of gRPC peer names.
#pragma once

#include <string>
#include <string_view>

namespace volador::head {

// Strips scheme and escapes from "ipv4:10.0.0.1:6380" or "ipv6:%5B::1%5D:6380", giving the format of net::GuardedPort.
std::string plain_peer(std::string_view peer);

// "10.0.0.1" or "%5B::1%5D" of such a name: the address without a port.
std::string peer_host(std::string_view peer);

}  // namespace volador::head
