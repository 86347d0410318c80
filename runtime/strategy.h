// How the bundles of a placement group lie on nodes.
#pragma once

#include <cstdint>
#include <string_view>

namespace volador {

enum class Strategy : uint8_t {
  kPack,          // On as few nodes as it takes.
  kSpread,        // On different nodes as far as there are some.
  kStrictPack,    // On one node, or not at all.
  kStrictSpread,  // Each on a node of its own, or not at all.
};

// "pack", "spread", "strict_pack", "strict_spread".
std::string_view to_string(Strategy strategy);

}  // namespace volador
