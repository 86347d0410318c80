// Identity of this machine: whether two processes share Unix sockets and file paths.
#pragma once

#include <string>

#include "runtime/result.h"

namespace volador {

// 32 hex digits: SHA-256 of the kernel's boot id and this process's network and mount namespaces. If equal, both
// processes reach the same files and sockets by the same paths. Constant unless the process changes its namespaces.
// kUnavailable: /proc is unreadable.
[[nodiscard]] Result<std::string> machine_id();

// /proc/sys/kernel/random/boot_id: changes at every boot. kUnavailable: /proc is unreadable.
[[nodiscard]] Result<std::string> boot_id();

}  // namespace volador
