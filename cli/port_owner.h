// Owner of a TCP port on this machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/result.h"

namespace volador::cli {

// Returns "process 4711 (redis-server)", or "a process of another user" if it is not visible; no value if nothing
// listens on the port.
std::optional<std::string> port_owner(uint16_t port);

// kUnavailable: the port is in use; names the owner and the remedy. kInvalidArgument: the address does not belong to
// this machine. Port 0 is always free. The port may be taken right after the check.
[[nodiscard]] Result<void> check_port_free(const std::string& address, uint16_t port);

// Returns the address for `--bind=auto`: that of the interface with the default route. kUnavailable: this machine has
// no network.
[[nodiscard]] Result<std::string> network_address();

}  // namespace volador::cli
