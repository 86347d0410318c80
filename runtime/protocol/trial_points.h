// Points of a trial's row, which take most of its room.
#pragma once

#include <utility>

#include "runtime/protocol/control.pb.h"

namespace volador::protocol {

// Not as clear_points(): a message keeps what it cleared, to use it again.
inline void release_points(TrialRow& row) { std::exchange(*row.mutable_points(), {}); }

}  // namespace volador::protocol
