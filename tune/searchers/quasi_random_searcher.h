// Search along a low-discrepancy sequence, which fills the space more evenly than random points.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tune/searchers/searcher.h"

namespace volador::tune {

struct QuasiRandomSequence {
  std::string name;       // "Halton"; for messages.
  std::string option_of;  // "halton_search".
  size_t dimensions_max = 0;
  std::function<double(int64_t index, size_t dimension)> coordinate;  // In [0, 1).
};

// Trial i is a function of the space, the seed and i only. Each parameter is one dimension, in the order of the space
// and including those within options of a choice; a normal parameter takes two. Grid axes are crossed as in random
// search.
class QuasiRandomSearcher final : public Searcher {
 public:
  // Returns the sequence for this number of dimensions.
  using MakeSequence = std::function<QuasiRandomSequence(size_t dimensions)>;
  // kInvalidArgument: invalid space or num_samples, or more dimensions than the sequence has.
  [[nodiscard]] static Result<std::unique_ptr<Searcher>> create(const MakeSequence& make_sequence, uint64_t seed,
                                                                const SearchContext& context);

  Result<Suggestion> suggest(int64_t index) override;
  bool skip(int64_t index, const Config&) override { return !total_ || index < *total_; }
  void on_result(const Observation&) override {}
  void on_complete(int64_t, const std::optional<Observation>&) override {}
  std::optional<int64_t> total() const override { return total_; }
  bool learns() const override { return false; }
  bool needs_metric() const override { return false; }
  std::string describe() const override { return sequence_.name + " search"; }
  std::string snapshot() const override { return R"({"version":1})"; }
  Result<void> restore(std::string_view snapshot) override;

 private:
  QuasiRandomSearcher() = default;
  QuasiRandomSequence sequence_;
  Space space_;
  uint64_t seed_ = 0;
  int64_t grid_size_ = 1;
  std::optional<int64_t> total_;
  struct Place {
    size_t dimension;  // First of `count` dimensions.
    size_t count;
  };
  std::unordered_map<std::string, Place> places_;  // By key.
};

}  // namespace volador::tune
