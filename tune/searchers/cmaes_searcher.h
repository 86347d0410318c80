// CMA-ES: adapts a normal distribution towards better points.
#pragma once

#include <cstdint>
#include <optional>

#include "tune/searchers/searcher.h"

namespace volador::tune {

enum class CmaesRestarts : uint8_t {
  kNone,
  kIpop,   // Each restart doubles the population (Auger and Hansen, CEC 2005).
  kBipop,  // Alternates these with small populations (Hansen, GECCO 2009).
};

struct CmaesOptions {
  std::optional<uint64_t> seed = std::nullopt;  // The experiment's seed by default.
  int64_t population = 0;  // Trials per generation, at least 4; 0: 4 + 3 ln(parameters), rounded down.
  double sigma = 1.0 / 6;  // Initial standard deviation as a fraction of each range; above 0, at most 1.
  CmaesRestarts restarts = CmaesRestarts::kBipop;  // Restart policy after a search has converged.
};

// Hansen, The CMA Evolution Strategy: A Tutorial, 2016, with negative weights. The first trial is the middle of the
// space. Choices have probabilities that are adapted too (Hamano et al., CatCMA, GECCO 2024); integers keep a minimum
// spread of a fraction of their cells. Trials that end late, or that it did not propose, count in the current
// generation. A failed trial ranks last. A suggestion costs O(parameters²), a generation O(parameters³).
SearcherFactory cmaes(const CmaesOptions& options = {});

}  // namespace volador::tune
