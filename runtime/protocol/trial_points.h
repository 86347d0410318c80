// Releases the points of a TrialRow, its largest part.
#pragma once

#include <utility>

#include "runtime/protocol/control.pb.h"

namespace volador::protocol {

// Unlike clear_points(), frees the memory.
inline void release_points(TrialRow& row) { std::exchange(*row.mutable_points(), {}); }

}  // namespace volador::protocol
