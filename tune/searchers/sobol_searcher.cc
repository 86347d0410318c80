#include "tune/searchers/sobol_searcher.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "runtime/random.h"
#include "tune/searchers/quasi_random_searcher.h"
#include "tune/searchers/sobol_directions.h"

namespace volador::tune {
namespace {

constexpr int kBits = 32;    // Bits of the sequence: 2^32 points.
constexpr int kDigits = 53;  // Bits of a scrambled coordinate.

// The direction numbers of a dimension, 32 bits each, from its polynomial and initial numbers (Joe and Kuo, equation
// 2).
std::array<uint32_t, kBits> directions_of(const uint16_t* polynomial) {
  std::array<uint32_t, kBits> v{};
  if (polynomial == nullptr) {  // The first dimension is van der Corput's sequence.
    for (int i = 0; i < kBits; ++i) v[static_cast<size_t>(i)] = 1U << (31 - i);
    return v;
  }
  const auto degree = static_cast<size_t>(std::bit_width(*polynomial)) - 1;
  for (size_t i = 0; i < kBits; ++i) {
    if (i < degree) {
      v[i] = static_cast<uint32_t>(polynomial[1 + i]) << (31 - i);
      continue;
    }
    v[i] = v[i - degree] ^ (v[i - degree] >> degree);
    for (size_t k = 1; k < degree; ++k) {
      if ((*polynomial >> (degree - k)) & 1) v[i] ^= v[i - k];
    }
  }
  return v;
}

}  // namespace

SobolSequence::SobolSequence(size_t dimensions, const std::optional<uint64_t>& scramble_seed) {
  VOLADOR_CHECK(dimensions <= kSobolDimensionsMax);
  const uint16_t* polynomial = kSobolDirections;
  for (size_t dimension = 0; dimension < dimensions; ++dimension) {
    const auto plain = directions_of(dimension == 0 ? nullptr : polynomial);
    if (dimension > 0) polynomial += std::bit_width(*polynomial);
    Dimension made;
    if (!scramble_seed) {
      for (size_t i = 0; i < kBits; ++i) made.directions[i] = static_cast<uint64_t>(plain[i]) << (kDigits - kBits);
      dimensions_.push_back(made);
      continue;
    }
    SeededRandom random(*scramble_seed * 0x9e3779b97f4a7c15ULL + dimension);
    made.directions.fill(0);
    for (int digit = 0; digit < kDigits; ++digit) {
      // Digit d of the result is digit d of the sequence plus a random combination of those before it.
      auto row = static_cast<uint32_t>(random.next());
      if (digit < kBits) row = (digit == 0 ? 0 : row & ~(UINT32_MAX >> digit)) | 1U << (31 - digit);
      for (size_t i = 0; i < kBits; ++i) {
        if (std::popcount(row & plain[i]) % 2 == 1) made.directions[i] |= uint64_t{1} << (kDigits - 1 - digit);
      }
    }
    made.shift = random.next() >> (64 - kDigits);
    dimensions_.push_back(made);
  }
}

double SobolSequence::coordinate(int64_t index, size_t dimension) const {
  const Dimension& own = dimensions_[dimension];
  uint64_t digits = own.shift;
  for (auto rest = static_cast<uint32_t>(index); rest != 0; rest &= rest - 1)
    digits ^= own.directions[static_cast<size_t>(std::countr_zero(rest))];
  return static_cast<double>(digits) * 0x1.0p-53;
}

SearcherFactory sobol_search(const SobolSearchOptions& options) {
  return [options](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    const uint64_t seed = options.seed.value_or(context.seed);
    const auto make_sequence = [&](size_t dimensions) -> QuasiRandomSequence {
      const auto sequence = std::make_shared<SobolSequence>(std::min(dimensions, kSobolDimensionsMax),
                                                            options.scramble ? std::optional(seed) : std::nullopt);
      return {
          .name = "Sobol",
          .option_of = "sobol_search",
          .dimensions_max = kSobolDimensionsMax,
          .coordinate = [sequence](int64_t index, size_t dimension) { return sequence->coordinate(index, dimension); }};
    };
    return QuasiRandomSearcher::create(make_sequence, seed, context);
  };
}

}  // namespace volador::tune
