// A search space as JSON, for files and clients in other languages. A map with a single member of one of these names is
// a domain; everything else is taken literally, so that maps nest and constants need no markup:
//
//   {"lr": {"loguniform": [1e-4, 0.1]}, "batch": {"choice": [16, 32, 64]}, "model": {"width": {"randint": [8, 65]},
//   "depth": 2}}
//
//   uniform loguniform randint lograndint [low, high)     quniform qloguniform qrandint qlograndint [low, high, q]
//   randn [mean, sd]     qrandn [mean, sd, q]     choice grid_search [option, …], which may be spaces
#pragma once

#include <vector>

#include "runtime/result.h"
#include "tune/space/config.h"
#include "tune/space/space.h"

namespace volador::tune {

// Returns a validated space. kInvalidArgument: names path, value, rule and remedy.
[[nodiscard]] Result<Space> space_from_json(const Config& json);
// As space_from_json(), and {"sample_from": n} is functions[n]: for spaces of programs in other languages.
[[nodiscard]] Result<Space> space_with_functions(const Config& json, const std::vector<FunctionDomain>& functions);
// Returns JSON that parses to a space with the same draws. kInvalidArgument: a sample_from function, or a map of
// constants that would be parsed as a domain.
[[nodiscard]] Result<Config> space_to_json(const Space& space);

}  // namespace volador::tune
