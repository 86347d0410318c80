// The tree-structured Parzen estimator: proposes where good trials are dense and others are not.
#pragma once

#include <cstdint>
#include <optional>

#include "tune/searchers/searcher.h"
#include "tune/space/config.h"

namespace volador::tune {

struct TpeOptions {
  std::optional<uint64_t> seed = std::nullopt;  // The experiment's seed by default.
  int64_t n_startup_trials = 10;                // Random ones until so many have given a number; at least 1.
  int64_t n_ei_candidates = 24;                 // Drawn among the good, the best of which is tried; at least 1.
  double gamma = 0.1;                           // Share of the trials that count as good, in (0, 1), …
  int64_t gamma_max = 25;                       // … but at most so many; at least 1.
  double prior_weight = 1;                      // Of the uniform density beside one trial; above 0.
  bool multivariate = true;                     // Parameters are drawn together; else each by itself.
  bool group = true;  // With multivariate: parameters of one option are drawn together too, else each by itself.
  bool constant_liar = true;  // Running trials count as bad: parallel ones keep their distance.
  bool magic_clip = true;     // No kernel is narrower than 1 / min(100, 1 + kernels).
  bool endpoints = false;     // The outermost kernels reach to the ends of the range.
  // A configuration that an expert expects to be good, any part of one: parameters by path. It is tried first; most random
  // trials, and the prior's share of later proposals, lie around it, prior_width of each range wide. A wrong one costs
  // trials and is forgotten as results come. kInvalidArgument: it names what the space has not, or a value never drawn.
  Config prior = {};
  double prior_width = 0.15;  // Above 0, at most 1.
  int64_t history_max =
      2'000;  // Ended trials that the model is made of: the good ones and the newest; at least 2 × gamma_max.
};

// Bergstra et al., Algorithms for Hyper-Parameter Optimization, NIPS 2011; multivariate as in Falkner et al., BOHB,
// ICML 2018; kernels and defaults are those of Optuna 5. Failed trials and NaN count as bad ones. An ask costs
// O(history_max × parameters), a result O(parameters × log history_max) and a shift of the kept numbers.
SearcherFactory tpe(const TpeOptions& options = {});

}  // namespace volador::tune
