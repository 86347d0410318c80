// Limit of open files and sockets of this process (RLIMIT_NOFILE).
#pragma once

#include <cstdint>

namespace volador {

// Limit for processes that run user code, and their children. select() is undefined for descriptors of 1,024 and above;
// the kernel assigns the lowest free number, so only a process with 1,024 open descriptors is affected, which would
// have failed with the lower limit.
inline constexpr uint64_t kUserProcessDescriptors = 65'536;

// Raises the soft limit to the hard one, but at most to `most`; a higher soft limit is kept. Returns the new soft
// limit.
uint64_t raise_descriptor_limit(uint64_t most = UINT64_MAX);

// Whether the process can open `wanted` more descriptors now; other threads may take them.
[[nodiscard]] bool can_open_descriptors(int wanted);

}  // namespace volador
