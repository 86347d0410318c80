// Hyperparameters of an experiment as a tree: constants, ranges, categories, and nested maps of such.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/yaml/value.h"

namespace volador::experiments {

struct ConstHyperparameter {
  yaml::Value val;  // Any value, null too.
};
struct IntHyperparameter {
  int64_t minval = 0, maxval = 0;  // Both inclusive; minval < maxval.
  std::optional<int64_t> count;    // Points of a grid; at least 1.
};
struct DoubleHyperparameter {
  double minval = 0, maxval = 0;
  std::optional<int64_t> count;
};
struct LogHyperparameter {
  double base = 10;               // Above 0.
  double minval = 0, maxval = 0;  // Exponents.
  std::optional<int64_t> count;
};
struct CategoricalHyperparameter {
  std::vector<yaml::Value> vals;  // At least one.
};

struct Hyperparameter;
// By name, so that the order in the file makes no difference.
using Hyperparameters = std::map<std::string, Hyperparameter, std::less<>>;

struct NestedHyperparameters {
  Hyperparameters map;
};

struct Hyperparameter {
  std::variant<ConstHyperparameter, IntHyperparameter, DoubleHyperparameter, LogHyperparameter,
               CategoricalHyperparameter, NestedHyperparameters>
      type;
};

// `canonical`: the map of a canonical configuration (sanity.h).
Hyperparameters hyperparameters_from(const yaml::Value& canonical);

// The hyperparameters without nested ones, which are named "optimizer.learning_rate", in the order of the names at each
// level. The pointers are into `all`.
std::vector<std::pair<std::string, const Hyperparameter*>> flattened(const Hyperparameters& all);

}  // namespace volador::experiments
