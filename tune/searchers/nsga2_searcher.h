// NSGA-II: a population that breeds, for several objectives at once and for constraints.
#pragma once

#include <cstdint>
#include <optional>

#include "tune/searchers/searcher.h"

namespace volador::tune {

enum class Nsga2Crossover : uint8_t {
  kSbx,      // Simulated binary: a number between or near those of its parents.
  kUniform,  // Each value from one parent or the other.
};

struct Nsga2Options {
  std::optional<uint64_t> seed = std::nullopt;  // The experiment's seed by default.
  int64_t population_size = 50;                 // Trials of a generation, 2 to 10,000; the first one is random.
  double crossover_prob = 0.9;  // Of a child with two parents, 0 to 1; else it is a changed copy of one.
  double swapping_prob = 0.5;   // With two: of each value, that it is not the first one's, 0 to 1.
  std::optional<double> mutation_prob = std::nullopt;  // Of each value, 0 to 1; by default one of each child's.
  Nsga2Crossover crossover = Nsga2Crossover::kSbx;
  double eta = 5;  // How near children are to their parents, above 0; larger is nearer.
};

// Deb, Pratap, Agarwal, Meyarivan, A Fast and Elitist Multiobjective Genetic Algorithm: NSGA-II, IEEE TEVC 6 (2002).
// Names and defaults are those of Optuna, whose crossover is kUniform. Trials that failed or reported no number have no
// children. A generation is over once population_size trials have ended, whichever they are, so that nothing waits.
SearcherFactory nsga2(const Nsga2Options& options = {});

}  // namespace volador::tune
