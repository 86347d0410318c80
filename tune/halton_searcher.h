// Quasi-random search: configurations that fill the space more evenly than random ones, by Halton's sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tune/searcher.h"

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

// Trial i is a function of the space, the seed and i only. Each parameter is a dimension in the order of the space,
// those within options of a choice too; a normal one takes two. Grid axes are crossed as in random search.
class HaltonSearcher final : public Searcher {
 public:
  // kInvalidArgument: the space or num_samples is wrong, or there are more dimensions than kHaltonDimensionsMax.
  [[nodiscard]] static Result<std::unique_ptr<HaltonSearcher>> create(const HaltonSearchOptions& options,
                                                                      const SearchContext& context);

  Result<Suggestion> suggest(int64_t index) override;
  void on_result(const Observation&) override {}
  void on_complete(int64_t, const std::optional<Observation>&) override {}
  std::optional<int64_t> total() const override { return total_; }
  bool learns() const override { return false; }
  bool needs_metric() const override { return false; }
  std::string describe() const override { return "Halton search"; }
  std::string snapshot() const override { return R"({"version":1})"; }
  Result<void> restore(std::string_view snapshot) override;

 private:
  HaltonSearcher() = default;
  Space space_;
  uint64_t seed_ = 0;
  std::optional<uint64_t> scramble_seed_;
  int64_t grid_size_ = 1;
  std::optional<int64_t> total_;
  struct Place {
    size_t dimension;  // The first of so many.
    size_t count;
  };
  std::unordered_map<std::string, Place> places_;  // By key.
};

SearcherFactory halton_search(const HaltonSearchOptions& options = {});

}  // namespace volador::tune
