#include "tune/searchers/quasi_random_searcher.h"

#include <fmt/format.h>

#include "tune/searchers/variant_searcher.h"
#include "tune/snapshot.h"

namespace volador::tune {
namespace {

// Random source that first returns the coordinates of a point and then random numbers.
class PointRandom final : public Random {
 public:
  PointRandom(const QuasiRandomSequence& sequence, int64_t index, size_t dimension, size_t count, uint64_t seed)
      : sequence_(sequence), index_(index), dimension_(dimension), end_(dimension + count), rest_(seed) {}

  uint64_t next() override {
    if (dimension_ == end_) return rest_.next();
    return static_cast<uint64_t>(sequence_.coordinate(index_, dimension_++) * 0x1.0p53) << 11;
  }

 private:
  const QuasiRandomSequence& sequence_;
  const int64_t index_;
  size_t dimension_;
  const size_t end_;
  SeededRandom rest_;
};

}  // namespace

Result<std::unique_ptr<Searcher>> QuasiRandomSearcher::create(const MakeSequence& make_sequence, uint64_t seed,
                                                              const SearchContext& context) {
  // The validation of random search applies here as well.
  auto plain = VariantSearcher::create({}, context);
  if (!plain) return make_error(plain.error());
  std::unique_ptr<QuasiRandomSearcher> searcher(new QuasiRandomSearcher());
  searcher->space_ = context.space;
  searcher->seed_ = seed;
  searcher->grid_size_ = *context.space.grid_size();
  searcher->total_ = (*plain)->total();
  size_t count = 0;
  for (const Space::DrawKey& drawn : searcher->space_.draw_keys()) {
    const size_t own = std::holds_alternative<NormalDomain>(*drawn.domain) ? 2 : 1;
    searcher->places_.emplace(drawn.key, Place{count, own});
    count += own;
  }
  searcher->sequence_ = make_sequence(count);
  if (count > searcher->sequence_.dimensions_max) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: the space has {} dimensions, at most {} are possible: use random_search",
                                  searcher->sequence_.option_of, count, searcher->sequence_.dimensions_max));
  }
  return searcher;
}

Result<Suggestion> QuasiRandomSearcher::suggest(int64_t index) {
  if (total_ && index >= *total_) return Suggestion{};
  const Space::Draw draw{.seed = seed_, .index = index, .grid_point = index % grid_size_};
  auto config = space_.sample(draw, [&](const std::string& key) -> std::unique_ptr<Random> {
    const Place& place = places_.at(key);
    return std::make_unique<PointRandom>(sequence_, index, place.dimension, place.count,
                                         seed_ ^ static_cast<uint64_t>(index));
  });
  if (!config) return make_error(config.error());
  return Suggestion{Suggestion::Kind::kConfig, std::move(*config)};
}

Result<void> QuasiRandomSearcher::restore(std::string_view snapshot) {
  return read_snapshot(describe(), snapshot, [](const Config&) { return Result<void>(); });
}

}  // namespace volador::tune
