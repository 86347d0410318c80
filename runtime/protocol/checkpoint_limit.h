// Limits shared by hosts and the head that control.proto does not define.
#pragma once

#include <cstddef>

namespace volador {

// Compressed size of one actor's checkpoint. The checkpoint travels to the head and, at a restart, in StartHost.
inline constexpr size_t kActorCheckpointBytesMax = 8 << 20;

}  // namespace volador
