// Hyperparameters of Determined's experiment configuration: types, sampling and grids.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/result.h"
#include "tune/determined/determined_random.h"
#include "tune/space/config.h"

namespace volador::tune::determined {

struct Const {
  Config val;
};
struct Categorical {
  std::vector<Config> vals;  // At least one.
};
struct Int {
  int64_t minval = 0, maxval = 0;               // Both inclusive.
  std::optional<int64_t> count = std::nullopt;  // Number of grid points.
};
struct Double {
  double minval = 0, maxval = 0;
  std::optional<int64_t> count = std::nullopt;
};
struct Log {
  double base = 10, minval = 0, maxval = 0;  // minval and maxval are exponents.
  std::optional<int64_t> count = std::nullopt;
};

class Hyperparameters;
struct Nested {
  std::shared_ptr<const Hyperparameters> map;
};
using Hyperparameter = std::variant<Const, Categorical, Int, Double, Log, Nested>;

class Hyperparameters {
 public:
  // {"lr": {"type": "log", "base": 10, "minval": -4, "maxval": -1}, "width": 64, "net": {"depth": {"type": "int", …}}}.
  // kInvalidArgument: an invalid type, bound or count; names the path, the value and the rule.
  [[nodiscard]] static Result<Hyperparameters> from(const Config& config);

  // Draws in the order of the names, recursively in nested maps. Constants consume no random numbers.
  Config sample(Random& random) const;
  // Returns all grid points; the first name varies slowest. kInvalidArgument: a number has no count, or there are more
  // points than `points_max`.
  static constexpr int64_t kPointsMax = 1'000'000;
  [[nodiscard]] Result<std::vector<Config>> grid(int64_t points_max = kPointsMax) const;

  const std::map<std::string, Hyperparameter>& all() const { return all_; }

 private:
  [[nodiscard]] static Result<Hyperparameters> from(const Config& config, const std::string& path);
  std::map<std::string, Hyperparameter> all_;
};

// Returns the values of one axis. kInvalidArgument: as grid().
[[nodiscard]] Result<std::vector<Config>> grid_values(const std::string& path, const Hyperparameter& one);

}  // namespace volador::tune::determined
