// How many files and sockets this process may hold open (RLIMIT_NOFILE).
#pragma once

#include <cstdint>

namespace volador {

// For processes that run a user's code, and for what they start. Code of theirs that calls select() is undefined with
// descriptors of 1,024 and more; the kernel gives the lowest number that is free, so only a process that holds 1,024
// open meets them, and the lower limit would have failed it there.
inline constexpr uint64_t kUserProcessDescriptors = 65'536;

// Raises the soft limit to the hard one, or to `most` where that is less; a higher soft limit stays. Returns the soft
// limit now.
uint64_t raise_descriptor_limit(uint64_t most = UINT64_MAX);

// Whether the process can open `wanted` more at this moment; other threads may take them at once.
[[nodiscard]] bool can_open_descriptors(int wanted);

}  // namespace volador
