// CMA-ES: moves and shapes a normal distribution towards better points.
#pragma once

#include <cstdint>
#include <optional>

#include "tune/searchers/searcher.h"

namespace volador::tune {

enum class CmaesRestarts : uint8_t {
  kNone,
  kIpop,   // Each with twice the population (Auger and Hansen, CEC 2005).
  kBipop,  // Those, and small populations in turn (Hansen, GECCO 2009).
};

struct CmaesOptions {
  std::optional<uint64_t> seed = std::nullopt;  // The experiment's seed by default.
  int64_t population = 0;  // Trials of a generation, at least 4; 0: 4 + 3 ln(parameters), rounded down.
  double sigma = 1.0 / 6;  // Initial standard deviation as a share of each range; above 0, at most 1.
  CmaesRestarts restarts = CmaesRestarts::kBipop;  // What follows when a search has converged.
};

// Hansen, The CMA Evolution Strategy: A Tutorial, 2016, with negative weights. The first trial is the middle of the
// space. Choices have probabilities that are learnt along (Hamano et al., CatCMA, GECCO 2024); integers keep a spread
// of a share of their cells. Trials that end late, or were not its own, count in the generation that is under way. A
// failed trial ranks last. An ask costs O(parameters²), a generation O(parameters³).
SearcherFactory cmaes(const CmaesOptions& options = {});

}  // namespace volador::tune
