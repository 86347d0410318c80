// Quasi-random search by Sobol's sequence.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "tune/searchers/searcher.h"

namespace volador::tune {

inline constexpr size_t kSobolDimensionsMax = 256;

// Sobol's sequence with the direction numbers of Joe and Kuo (2008): of the first 2^k points, and of each 2^k that
// follow, one lies in each of 2^k equal parts of every coordinate. Scrambled by a random lower triangular matrix of
// bits and a random shift a dimension (Matoušek, 1998), which keeps that.
class SobolSequence {
 public:
  // At most kSobolDimensionsMax dimensions.
  SobolSequence(size_t dimensions, const std::optional<uint64_t>& scramble_seed);

  // In [0, 1); point 0 is the origin where it is not scrambled. index in [0, 2^32); dimension below `dimensions`.
  double coordinate(int64_t index, size_t dimension) const;

 private:
  struct Dimension {
    std::array<uint64_t, 32> directions;  // The bits after the point, 53 of them.
    uint64_t shift = 0;
  };
  std::vector<Dimension> dimensions_;
};

struct SobolSearchOptions {
  std::optional<uint64_t> seed =
      std::nullopt;      // The experiment's seed by default; without scrambling it changes nothing.
  bool scramble = true;  // Another net of the same evenness for each seed; without it the first point is a corner.
};

// See QuasiRandomSearcher. Even numbers of trials, powers of two above all, fill the space most evenly.
SearcherFactory sobol_search(const SobolSearchOptions& options = {});

}  // namespace volador::tune
