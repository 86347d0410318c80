// NSGA-II: genetic algorithm for several objectives and constraints.
#pragma once

#include <cstdint>
#include <optional>

#include "tune/searchers/searcher.h"

namespace volador::tune {

enum class Nsga2Crossover : uint8_t {
  kSbx,      // Simulated binary crossover: a number between or near those of its parents.
  kUniform,  // Each value from one parent or the other.
};

struct Nsga2Options {
  std::optional<uint64_t> seed = std::nullopt;  // The experiment's seed by default.
  int64_t population_size = 50;                 // Trials per generation, 2 to 10,000; the first generation is random.
  double crossover_prob = 0.9;  // Probability that a child has two parents, 0 to 1; otherwise it is a mutated copy of
                                // one.
  double swapping_prob = 0.5;   // Probability, per value, of taking the second parent's value, 0 to 1.
  std::optional<double> mutation_prob = std::nullopt;  // Probability per value, 0 to 1; by default one value per child
                                                       // on average.
  Nsga2Crossover crossover = Nsga2Crossover::kSbx;
  double eta = 5;  // Distribution index, above 0; larger values keep children closer to their parents.
};

// Deb, Pratap, Agarwal, Meyarivan, A Fast and Elitist Multiobjective Genetic Algorithm: NSGA-II, IEEE TEVC 6 (2002).
// Names and defaults are Optuna's, whose crossover is kUniform. Trials that failed or reported no number have no
// children. A generation ends once any population_size trials have ended, so that workers never wait.
SearcherFactory nsga2(const Nsga2Options& options = {});

}  // namespace volador::tune
