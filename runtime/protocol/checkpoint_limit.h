// Limits that host and head share besides the messages of control.proto.
#pragma once

#include <cstddef>

namespace volador {

// Compressed size of one actor's checkpoint. The checkpoint travels to the head and, at a restart, in StartHost.
inline constexpr size_t kActorCheckpointBytesMax = 8 << 20;

}  // namespace volador
