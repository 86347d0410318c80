// Durations as numbers of seconds, for messages and records.
#pragma once

#include <chrono>

namespace volador::tune {

inline double seconds_of(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace volador::tune
