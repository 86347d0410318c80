// Searchers named in a few words, for command lines and clients of other languages: "tpe:n_startup_trials=5".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tune/searchers/searcher.h"

namespace volador::tune {

// random, grid, tpe, gp, cmaes, nsga2, bohb, sobol, halton or auto, then options of that searcher by their names.
// kInvalidArgument: names the word, what is known and the nearest; options out of range are found when the searcher is
// made.
[[nodiscard]] Result<SearcherFactory> searcher_of(std::string_view text);
const std::vector<std::string>& searcher_names();

}  // namespace volador::tune
