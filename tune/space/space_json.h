// A search space as JSON, for files and clients of other languages. A map with one member of these names is a domain;
// all else stands for itself, so that maps nest and constants need no words:
//
//   {"lr": {"loguniform": [1e-4, 0.1]}, "batch": {"choice": [16, 32, 64]}, "model": {"width": {"randint": [8, 65]},
//   "depth": 2}}
//
//   uniform loguniform randint lograndint [low, high)     quniform qloguniform qrandint qlograndint [low, high, q]
//   randn [mean, sd]     qrandn [mean, sd, q]     choice grid_search [option, …], which may be spaces
#pragma once

#include "runtime/result.h"
#include "tune/space/config.h"
#include "tune/space/space.h"

namespace volador::tune {

// Validated. kInvalidArgument: names path, value, rule and remedy.
[[nodiscard]] Result<Space> space_from_json(const Config& json);
// Read back, a space that draws the same. kInvalidArgument: a sample_from function, or a map of constants that would be
// read as a domain.
[[nodiscard]] Result<Config> space_to_json(const Space& space);

}  // namespace volador::tune
