// Hyperparameters as an experiment configuration of Determined has them: their types, draws and grids.
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
  int64_t minval = 0, maxval = 0;               // Both included.
  std::optional<int64_t> count = std::nullopt;  // Of grid points.
};
struct Double {
  double minval = 0, maxval = 0;
  std::optional<int64_t> count = std::nullopt;
};
struct Log {
  double base = 10, minval = 0, maxval = 0;  // Of the exponent.
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
  // kInvalidArgument: a type, a bound or a count is wrong; names the path, the value and the rule.
  [[nodiscard]] static Result<Hyperparameters> from(const Config& config);

  // In the order of the names, maps within maps likewise. Constants draw nothing.
  Config sample(Random& random) const;
  // All points, the first name's axis varies slowest. kInvalidArgument: a number has no count, or there are more than
  // `points_max`.
  static constexpr int64_t kPointsMax = 1'000'000;
  [[nodiscard]] Result<std::vector<Config>> grid(int64_t points_max = kPointsMax) const;

  const std::map<std::string, Hyperparameter>& all() const { return all_; }

 private:
  [[nodiscard]] static Result<Hyperparameters> from(const Config& config, const std::string& path);
  std::map<std::string, Hyperparameter> all_;
};

// The values of one axis. kInvalidArgument: as of grid().
[[nodiscard]] Result<std::vector<Config>> grid_values(const std::string& path, const Hyperparameter& one);

}  // namespace volador::tune::determined
