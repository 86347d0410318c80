// Selects a searcher by the space and the number of trials.
#pragma once

#include <string_view>

#include "tune/searchers/searcher.h"

namespace volador::tune {

// Rule of automatic():
//   random   nothing is drawn, or the space is only a grid
//   tpe      parameters below options of a choice; choices beside numbers with more trials than gp takes
//   gp       up to 200 trials; up to 100 if some parameters are choices, or there are several objectives
//   cmaes    numbers only, and at least 40 trials per parameter
//   nsga2    several objectives and more than 500 trials
// num_samples -1 counts as 1,000 trials.
enum class AutoChoice : uint8_t { kRandom, kTpe, kGp, kCmaes, kNsga2 };
AutoChoice auto_choice(const SearchContext& context);

SearcherFactory automatic();

}  // namespace volador::tune
