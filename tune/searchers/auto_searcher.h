// Chooses a searcher by the space and the number of trials.
#pragma once

#include <string_view>

#include "tune/searchers/searcher.h"

namespace volador::tune {

// The searcher that automatic() takes:
//   random   nothing is drawn, or the space is a grid alone
//   tpe      parameters below options of a choice; options beside numbers and more trials than below
//   gp       up to 200 trials; up to 100 where some parameters are options, or there are several objectives
//   cmaes    numbers only, and at least 40 trials a parameter
//   nsga2    several objectives and more than 500 trials
// Where num_samples is -1 it counts as 1,000 trials.
enum class AutoChoice : uint8_t { kRandom, kTpe, kGp, kCmaes, kNsga2 };
AutoChoice auto_choice(const SearchContext& context);

SearcherFactory automatic();

}  // namespace volador::tune
