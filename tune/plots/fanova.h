// Fraction of a function's variance explained by each of its parameters, by functional ANOVA over a random forest
// (Hutter, Hoos, Leyton-Brown, "An efficient approach for assessing hyperparameter importance", ICML 2014): trees are
// fitted to the evaluated points; since a tree is constant on boxes, its mean over all values of the other parameters
// is a sum and needs no sampling. Pure; deterministic for a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/result.h"

namespace volador::tune {

struct FanovaParameter {
  size_t categories = 0;  // 0: a number from lo to hi. Otherwise values are 0, 1, … categories - 1; at most 64.
  double lo = 0, hi = 1;  // Values are weighted uniformly; pass logarithms for a parameter that is searched on a
                          // logarithmic scale.
};

struct FanovaData {
  std::vector<FanovaParameter> parameters;
  std::vector<std::vector<double>> points;  // One value per parameter each.
  std::vector<double> values;               // One per point.
};

struct FanovaOptions {
  int trees = 64;           // At least 1.
  int leaf_min = 2;         // Minimum points per leaf, at least 1.
  size_t sample_max = 512;  // Maximum points drawn for one tree.
  size_t pairs_of = 6;      // Number of most important parameters whose interactions are computed.
  uint64_t seed = 0;
};

// Fraction of the variance over the whole space, averaged over the trees.
struct ParameterShare {
  size_t parameter = 0;
  double share = 0;      // 0 to 1.
  double deviation = 0;  // Standard deviation over the trees.
};
struct PairShare {
  size_t first = 0, second = 0;
  double share = 0;  // Fraction explained by both together beyond their individual fractions.
  double deviation = 0;
};

struct Fanova {
  std::vector<ParameterShare> parameters;  // Largest first; each parameter once.
  std::vector<PairShare> pairs;            // Largest first.
  // R² of predictions for points that trees were not fitted to: 1 is exact, 0 no better than the mean. NaN: there were
  // no such points.
  double fit = 0;
  size_t points = 0;
};

// O(trials × sample × log sample × parameters) plus interactions. kInvalidArgument: fewer than 4 points, no parameter,
// all values equal, or a value that is not finite or outside its parameter's range; the message names it.
[[nodiscard]] Result<Fanova> fanova(const FanovaData& data, const FanovaOptions& options = {});

}  // namespace volador::tune
