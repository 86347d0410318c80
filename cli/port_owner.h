// Who has a TCP port of this machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/result.h"

namespace volador::cli {

// "process 4711 (redis-server)", or "a process of another user" where we may not see it; none where nobody listens
// there.
std::optional<std::string> port_owner(uint16_t port);

// kUnavailable where somebody listens: names who, and what to do. kInvalidArgument: the address is not one of this
// machine. Port 0 is always free. A moment later it may be taken.
[[nodiscard]] Result<void> check_port_free(const std::string& address, uint16_t port);

// The address that `--bind=auto` means: that of the interface that leads to the default route. kUnavailable: this
// machine has no network.
[[nodiscard]] Result<std::string> network_address();

}  // namespace volador::cli
