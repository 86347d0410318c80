// What a process holds that the kernel takes back at its end only.
#pragma once

#include <cstdint>
#include <optional>

namespace volador {

struct Footprint {
  int descriptors = 0;       // Open ones.
  int64_t memory_bytes = 0;  // Of no file; as the kernel counts, a little behind.
};
// Of this process; none: /proc cannot be read.
std::optional<Footprint> footprint();

}  // namespace volador
