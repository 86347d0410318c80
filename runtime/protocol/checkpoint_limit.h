// What host and head agree on beside the messages of control.proto.
#pragma once

#include <cstddef>

namespace volador {

// Of one actor's checkpoint, compressed: it travels to the head and, at a restart, with the start of the next host.
inline constexpr size_t kActorCheckpointBytesMax = 8 << 20;

}  // namespace volador
