// Quasi-random search with the Sobol sequence.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "tune/searchers/searcher.h"

namespace volador::tune {

inline constexpr size_t kSobolDimensionsMax = 256;

// Sobol sequence with the direction numbers of Joe and Kuo (2008): among the first 2^k points, and each following block
// of 2^k, one point lies in each of 2^k equal intervals of every coordinate. Scrambled by a random lower triangular bit
// matrix and a random shift per dimension (Matoušek, 1998), which preserves this property.
class SobolSequence {
 public:
  // At most kSobolDimensionsMax dimensions.
  SobolSequence(size_t dimensions, const std::optional<uint64_t>& scramble_seed);

  // Returns a value in [0, 1); without scrambling point 0 is the origin. index in [0, 2^32); dimension below
  // `dimensions`.
  double coordinate(int64_t index, size_t dimension) const;

 private:
  struct Dimension {
    std::array<uint64_t, 32> directions;  // 53 bits after the binary point.
    uint64_t shift = 0;
  };
  std::vector<Dimension> dimensions_;
};

struct SobolSearchOptions {
  std::optional<uint64_t> seed = std::nullopt;  // The experiment's seed by default; ignored without scrambling.
  bool scramble = true;  // Each seed gives another net of the same uniformity; without scrambling the first point is a
                         // corner.
};

// See QuasiRandomSearcher. Powers of two of trials, and otherwise even numbers, fill the space most evenly.
SearcherFactory sobol_search(const SobolSearchOptions& options = {});

}  // namespace volador::tune
