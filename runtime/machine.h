// Which machine this is: whether two processes can meet over Unix sockets and file paths.
#pragma once

#include <string>

#include "runtime/result.h"

namespace volador {

// 32 hex digits: SHA-256 over the kernel's boot id and this process's network and mount namespace. Equal on both sides:
// the same files and sockets are reachable by the same paths. Constant for the life of a process that does not change
// its namespaces. kUnavailable: /proc cannot be read.
[[nodiscard]] Result<std::string> machine_id();

// /proc/sys/kernel/random/boot_id: new at every boot. kUnavailable: /proc cannot be read.
[[nodiscard]] Result<std::string> boot_id();

}  // namespace volador
