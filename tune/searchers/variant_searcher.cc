#include "tune/searchers/variant_searcher.h"

#include <fmt/format.h>

#include "tune/loop/trial.h"
#include "tune/snapshot.h"

namespace volador::tune {

Result<std::unique_ptr<VariantSearcher>> VariantSearcher::create(const RandomSearchOptions& options,
                                                                 const SearchContext& context) {
  VOLADOR_TRY(context.space.validate());
  auto grid_size = context.space.grid_size();
  if (!grid_size) return make_error(grid_size.error());
  if (context.num_samples < 1 && context.num_samples != -1) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("num_samples: expected at least 1, or -1 for no end, got {}", context.num_samples));
  }
  std::unique_ptr<VariantSearcher> searcher(new VariantSearcher());
  searcher->space_ = context.space;
  searcher->seed_ = options.seed.value_or(context.seed);
  searcher->constant_grid_ = options.constant_grid_search;
  searcher->grid_size_ = *grid_size;
  if (context.num_samples > 0) {
    if (context.num_samples > kTrialsMax / *grid_size) {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("num_samples: {} × {} grid points are more than 2^32 trials", context.num_samples, *grid_size));
    }
    searcher->total_ = context.num_samples * *grid_size;
  }
  return searcher;
}

Result<Suggestion> VariantSearcher::suggest(int64_t index) {
  if (total_ && index >= *total_) return Suggestion{Suggestion::Kind::kExhausted, {}};
  const Space::Draw draw{
      .seed = seed_, .index = constant_grid_ ? index / grid_size_ : index, .grid_point = index % grid_size_};
  auto config = space_.sample(draw);
  if (!config) return make_error(config.error());
  return Suggestion{Suggestion::Kind::kConfig, std::move(*config)};
}

std::string VariantSearcher::describe() const {
  if (grid_size_ > 1) return fmt::format("grid of {}", grid_size_);
  return "random search";
}

Result<void> VariantSearcher::restore(std::string_view snapshot) {
  return read_snapshot(describe(), snapshot, [](const Config&) { return Result<void>(); });
}

SearcherFactory random_search(const RandomSearchOptions& options) {
  return [options](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    auto searcher = VariantSearcher::create(options, context);
    if (!searcher) return make_error(searcher.error());
    return std::unique_ptr<Searcher>(std::move(*searcher));
  };
}

}  // namespace volador::tune
