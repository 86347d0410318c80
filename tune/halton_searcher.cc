#include "tune/halton_searcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tune/snapshot.h"
#include "tune/variant_searcher.h"

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

// Gives coordinates of a point as the numbers drawn first, and goes on at random where more are asked for.
class PointRandom final : public Random {
 public:
  PointRandom(int64_t index, size_t dimension, size_t count, const std::optional<uint64_t>& scramble_seed,
              uint64_t seed)
      : index_(index), dimension_(dimension), end_(dimension + count), scramble_seed_(scramble_seed), rest_(seed) {}

  uint64_t next() override {
    if (dimension_ == end_) return rest_.next();
    return static_cast<uint64_t>(halton(index_, dimension_++, scramble_seed_) * 0x1.0p53) << 11;
  }

 private:
  const int64_t index_;
  size_t dimension_;
  const size_t end_;
  const std::optional<uint64_t>& scramble_seed_;
  SeededRandom rest_;
};

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

Result<std::unique_ptr<HaltonSearcher>> HaltonSearcher::create(const HaltonSearchOptions& options,
                                                               const SearchContext& context) {
  // The rules of random search hold here as well.
  auto plain = VariantSearcher::create({}, context);
  if (!plain) return make_error(plain.error());
  std::unique_ptr<HaltonSearcher> searcher(new HaltonSearcher());
  searcher->space_ = context.space;
  searcher->seed_ = options.seed.value_or(context.seed);
  if (options.scramble) searcher->scramble_seed_ = searcher->seed_;
  searcher->grid_size_ = *context.space.grid_size();
  searcher->total_ = (*plain)->total();
  size_t count = 0;
  for (const Space::DrawKey& drawn : searcher->space_.draw_keys()) {
    const size_t own = std::holds_alternative<NormalDomain>(*drawn.domain) ? 2 : 1;
    searcher->places_.emplace(drawn.key, Place{count, own});
    count += own;
  }
  if (count > kHaltonDimensionsMax) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("halton_search: the space has {} dimensions, at most {} are possible: use random_search", count,
                    kHaltonDimensionsMax));
  }
  return searcher;
}

Result<Suggestion> HaltonSearcher::suggest(int64_t index) {
  if (total_ && index >= *total_) return Suggestion{};
  const Space::Draw draw{.seed = seed_, .index = index, .grid_point = index % grid_size_};
  auto config = space_.sample(draw, [&](const std::string& key) -> std::unique_ptr<Random> {
    const Place& place = places_.at(key);
    return std::make_unique<PointRandom>(index, place.dimension, place.count, scramble_seed_,
                                         seed_ ^ static_cast<uint64_t>(index));
  });
  if (!config) return make_error(config.error());
  return Suggestion{Suggestion::Kind::kConfig, std::move(*config)};
}

Result<void> HaltonSearcher::restore(std::string_view snapshot) {
  return read_snapshot(describe(), snapshot, [](const Config&) { return Result<void>(); });
}

SearcherFactory halton_search(const HaltonSearchOptions& options) {
  return [options](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    auto searcher = HaltonSearcher::create(options, context);
    if (!searcher) return make_error(searcher.error());
    return std::unique_ptr<Searcher>(std::move(*searcher));
  };
}

}  // namespace volador::tune
