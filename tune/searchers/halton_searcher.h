// Quasi-random search by Halton's sequence.
#pragma once

#include <cstdint>
#include <optional>

#include "tune/searchers/searcher.h"

namespace volador::tune {

struct HaltonSearchOptions {
  std::optional<uint64_t> seed =
      std::nullopt;      // The experiment's seed by default; without scrambling it changes nothing.
  bool scramble = true;  // Digits are permuted at random, which undoes the stripes of large bases.
};

// Coordinate `dimension` of point `index` of Halton's sequence, from 0 on, in [0, 1): the radical inverse of index + 1
// in the dimension's prime (Halton, 1960). Scrambled: each digit d becomes (a d + b) mod prime with random a > 0 and b
// of the seed, dimension and place (Matoušek, 1998). index >= 0, dimension below kHaltonDimensionsMax.
double halton(int64_t index, size_t dimension, const std::optional<uint64_t>& scramble_seed);
inline constexpr size_t kHaltonDimensionsMax = 1000;

// See QuasiRandomSearcher.
SearcherFactory halton_search(const HaltonSearchOptions& options = {});

}  // namespace volador::tune
