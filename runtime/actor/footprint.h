// Resources of a process that the kernel releases only at its end.
#pragma once

#include <cstdint>
#include <optional>

namespace volador {

// Descriptors and memory of a process.
struct Footprint {
  int descriptors = 0;       // Open descriptors.
  int64_t memory_bytes = 0;  // Anonymous memory; the kernel's counter lags a little.
};
// Returns the footprint of this process; nothing if /proc is unreadable.
std::optional<Footprint> footprint();

}  // namespace volador
