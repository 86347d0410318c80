// How much of a function's variance each of its parameters explains, by functional ANOVA over a random forest (Hutter,
// Hoos, Leyton-Brown, "An efficient approach for assessing hyperparameter importance", ICML 2014): trees are fitted to
// what was tried; since a tree is constant on boxes, its mean over all values of the other parameters is a sum, not a
// simulation. Pure; a seed decides everything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/result.h"

namespace volador::tune {

struct FanovaParameter {
  size_t categories = 0;  // 0: a number from lo to hi. Else values are 0, 1, … categories - 1; at most 64.
  double lo = 0, hi = 1;  // Every value inside counts alike; give logarithms for a parameter that is searched on a
                          // logarithmic scale.
};

struct FanovaData {
  std::vector<FanovaParameter> parameters;
  std::vector<std::vector<double>> points;  // Each with a value a parameter.
  std::vector<double> values;               // Beside the points.
};

struct FanovaOptions {
  int trees = 64;           // At least 1.
  int leaf_min = 2;         // Points of a leaf, at least 1.
  size_t sample_max = 512;  // Points drawn for one tree, at most.
  size_t pairs_of = 6;      // Interactions of so many parameters, the most important ones, are looked at.
  uint64_t seed = 0;
};

// Of the variance over the whole space, as a mean over the trees.
struct ParameterShare {
  size_t parameter = 0;
  double share = 0;      // 0 to 1.
  double deviation = 0;  // Over the trees.
};
struct PairShare {
  size_t first = 0, second = 0;
  double share = 0;  // What both explain together beyond what each does alone.
  double deviation = 0;
};

struct Fanova {
  std::vector<ParameterShare> parameters;  // Largest first; each parameter once.
  std::vector<PairShare> pairs;            // Largest first.
  // How well trees predict points that they were not fitted to: 1 exactly, 0 no better than the mean. NaN: there were
  // none such.
  double fit = 0;
  size_t points = 0;
};

// O(trees × sample × log sample × parameters), and interactions.
// kInvalidArgument: fewer than 4 points, no parameter, values that are all equal, something not finite or outside its
// parameter's range; the message names it.
[[nodiscard]] Result<Fanova> fanova(const FanovaData& data, const FanovaOptions& options = {});

}  // namespace volador::tune
