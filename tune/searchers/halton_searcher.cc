#include "tune/searchers/halton_searcher.h"

#include <algorithm>
#include <array>

#include "runtime/random.h"
#include "tune/searchers/quasi_random_searcher.h"

namespace volador::tune {
namespace {

const std::array<uint32_t, kHaltonDimensionsMax>& primes() {
  static const auto all = [] {
    std::array<uint32_t, kHaltonDimensionsMax> out{};
    size_t found = 0;
    for (uint32_t candidate = 2; found < out.size(); ++candidate) {
      bool prime = true;
      for (size_t i = 0; i < found && out[i] * out[i] <= candidate; ++i) prime = prime && candidate % out[i] != 0;
      if (prime) out[found++] = candidate;
    }
    return out;
  }();
  return all;
}

}  // namespace

double halton(int64_t index, size_t dimension, const std::optional<uint64_t>& scramble_seed) {
  VOLADOR_CHECK(index >= 0 && dimension < kHaltonDimensionsMax);
  const uint64_t base = primes()[dimension];
  std::optional<SeededRandom> random;
  if (scramble_seed) random.emplace(*scramble_seed * 0x9e3779b97f4a7c15ULL + dimension);
  double value = 0;
  double place = 1;
  // Digits beyond those of the index are zeros, which are permuted as well.
  for (auto rest = static_cast<uint64_t>(index) + 1; random ? place > 0x1.0p-54 : rest > 0; rest /= base) {
    uint64_t digit = rest % base;
    if (random) {
      const uint64_t factor = 1 + random->below(base - 1);
      digit = (factor * digit + random->below(base)) % base;
    }
    place /= static_cast<double>(base);
    value += static_cast<double>(digit) * place;
  }
  return std::min(value, 1 - 0x1.0p-53);
}

SearcherFactory halton_search(const HaltonSearchOptions& options) {
  return [options](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    const uint64_t seed = options.seed.value_or(context.seed);
    const auto scramble_seed = options.scramble ? std::optional(seed) : std::nullopt;
    const auto sequence = [scramble_seed](size_t) -> QuasiRandomSequence {
      return {.name = "Halton",
              .option_of = "halton_search",
              .dimensions_max = kHaltonDimensionsMax,
              .coordinate = [scramble_seed](int64_t index, size_t dimension) {
                return halton(index, dimension, scramble_seed);
              }};
    };
    return QuasiRandomSearcher::create(sequence, seed, context);
  };
}

}  // namespace volador::tune
