// Tree-structured Parzen estimator: proposes points where good trials are dense and others are not.
#pragma once

#include <cstdint>
#include <optional>

#include "tune/searchers/searcher.h"
#include "tune/space/config.h"

namespace volador::tune {

struct TpeOptions {
  std::optional<uint64_t> seed = std::nullopt;  // The experiment's seed by default.
  int64_t n_startup_trials = 10;                // Random trials until this many have reported a number; at least 1.
  int64_t n_ei_candidates = 24;                 // Candidates drawn from the density of the good trials, the best of
                                                // which is proposed; at least 1.
  double gamma = 0.1;                           // Fraction of trials that count as good, in (0, 1), …
  int64_t gamma_max = 25;                       // … up to this number; at least 1.
  double prior_weight = 1;                      // Weight of the uniform density, where one trial has weight 1; above 0.
  bool multivariate = true;                     // Parameters are drawn jointly; otherwise independently.
  bool group = true;  // With multivariate: parameters below one option are drawn jointly too, otherwise independently.
  bool constant_liar = true;  // Running trials count as bad, which keeps parallel trials apart.
  bool magic_clip = true;     // No kernel is narrower than 1 / min(100, 1 + kernels).
  bool endpoints = false;     // The outermost kernels extend to the ends of the range.
  // A full or partial configuration, by path, that the user expects to be good. It is tried first; most random trials
  // and the prior component of later proposals lie around it, with a width of prior_width of each range. A wrong prior
  // costs trials and loses influence as results arrive. kInvalidArgument: it has a name that is not in the space, or a
  // value outside its domain.
  Config prior = {};
  double prior_width = 0.15;    // Above 0, at most 1.
  int64_t history_max = 2'000;  // Ended trials in the model: the good ones and the newest; at least 2 × gamma_max.
};

// Bergstra et al., Algorithms for Hyper-Parameter Optimization, NIPS 2011; multivariate as in Falkner et al., BOHB,
// ICML 2018; kernels and defaults are those of Optuna 5. Failed trials and NaN count as bad. A suggestion costs
// O(history_max × parameters), a result O(parameters × log history_max) plus a shift of the stored numbers.
SearcherFactory tpe(const TpeOptions& options = {});

}  // namespace volador::tune
