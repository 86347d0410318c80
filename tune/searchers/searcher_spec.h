// Text specifications of searchers, for command lines and clients in other languages: "tpe:n_startup_trials=5".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tune/searchers/searcher.h"

namespace volador::tune {

// Parses random, grid, tpe, gp, trees, cmaes, nsga2, bohb, sobol, halton or auto, followed by named options of that searcher.
// kInvalidArgument: names the unknown word, the known ones and the nearest; options out of range are detected when the
// searcher is created.
[[nodiscard]] Result<SearcherFactory> searcher_of(std::string_view text);
const std::vector<std::string>& searcher_names();

}  // namespace volador::tune
