// Quasi-random search with the Halton sequence.
#pragma once

#include <cstdint>
#include <optional>

#include "tune/searchers/searcher.h"

namespace volador::tune {

struct HaltonSearchOptions {
  std::optional<uint64_t> seed = std::nullopt;  // The experiment's seed by default; ignored without scrambling.
  bool scramble = true;                         // Permutes digits at random, which removes the stripes of large bases.
};

// Returns coordinate `dimension` of point `index`, from 0, of the Halton sequence, in [0, 1): the radical inverse of
// index + 1 in the dimension's prime (Halton, 1960). Scrambled: each digit d becomes (a d + b) mod prime with a > 0 and
// b random by seed, dimension and digit position (Matoušek, 1998). Requires index >= 0 and dimension <
// kHaltonDimensionsMax.
double halton(int64_t index, size_t dimension, const std::optional<uint64_t>& scramble_seed);
inline constexpr size_t kHaltonDimensionsMax = 1000;

// See QuasiRandomSearcher.
SearcherFactory halton_search(const HaltonSearchOptions& options = {});

}  // namespace volador::tune
