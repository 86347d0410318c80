// Random identifiers in the form that Determined and Kubernetes give theirs.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "runtime/random.h"

namespace volador {

// Version 4 of RFC 9562, 36 characters: "0b2f7a9c-1d3e-4f50-8a6b-7c8d9e0f1a2b".
inline std::string uuid_text(Random& random) {
  const uint64_t high = (random.next() & ~uint64_t{0xf000}) | 0x4000;
  const uint64_t low = (random.next() >> 2) | (uint64_t{2} << 62);
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, (high >> 16) & 0xffff, high & 0xffff, low >> 48,
                     low & 0xffff'ffff'ffff);
}

}  // namespace volador
