// Placement strategies for the bundles of a placement group.
#pragma once

#include <cstdint>
#include <string_view>

namespace volador {

enum class Strategy : uint8_t {
  kPack,          // On as few nodes as possible.
  kSpread,        // On different nodes as far as possible.
  kStrictPack,    // All on one node; otherwise not placed.
  kStrictSpread,  // Each on a different node; otherwise not placed.
};

// "pack", "spread", "strict_pack", "strict_spread".
std::string_view to_string(Strategy strategy);

}  // namespace volador
