// Grid and random search: grid_search axes are crossed, everything else is drawn independently for each trial.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tune/searchers/searcher.h"

namespace volador::tune {

struct RandomSearchOptions {
  std::optional<uint64_t> seed = std::nullopt;  // The experiment's seed by default.
  bool constant_grid_search = false;            // Draws random values once per sample instead of once per grid point.
};

// Trial i is a function of the space, the seed and i only, so that the set of configurations does not depend on the
// number of workers or the order of results. Grid axes are sorted by path and the first varies fastest; there are
// num_samples × grid size trials.
class VariantSearcher final : public Searcher {
 public:
  [[nodiscard]] static Result<std::unique_ptr<VariantSearcher>> create(const RandomSearchOptions& options,
                                                                       const SearchContext& context);

  Result<Suggestion> suggest(int64_t index) override;
  bool skip(int64_t index, const Config&) override { return !total_ || index < *total_; }
  void on_result(const Observation&) override {}
  void on_complete(int64_t, const std::optional<Observation>&) override {}
  std::optional<int64_t> total() const override { return total_; }
  bool learns() const override { return false; }
  bool needs_metric() const override { return false; }
  std::string describe() const override;
  std::string snapshot() const override { return R"({"version":1})"; }
  Result<void> restore(std::string_view snapshot) override;

 private:
  VariantSearcher() = default;
  Space space_;
  uint64_t seed_ = 0;
  bool constant_grid_ = false;
  int64_t grid_size_ = 1;
  std::optional<int64_t> total_;
};

// The default searcher.
SearcherFactory random_search(const RandomSearchOptions& options = {});

}  // namespace volador::tune
