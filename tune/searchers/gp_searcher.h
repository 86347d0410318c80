// Bayesian optimisation: a Gaussian process of the metric, and the point that promises the largest improvement.
#pragma once

#include <cstdint>
#include <optional>

#include "tune/searchers/searcher.h"

namespace volador::tune {

struct GpOptions {
  std::optional<uint64_t> seed = std::nullopt;  // The experiment's seed by default.
  int64_t n_startup_trials = 10;                // At random points, until so many have ended; at least 2.
  int64_t history_max = 1'000;  // Ended trials the model is made of: best and newest, half each; at least 20.
};

// Matérn 5/2 kernel with a length for each parameter and noise, fitted by maximum a posteriori; expected improvement
// (Jones, Schonlau, Welch, Journal of Global Optimization 1998), maximised from many points. Trials that run are taken
// to give what the model expects, so that a batch spreads (Ginsbourger, Le Riche, Carraro, 2010). Failed trials count
// as the worst one. The model is fitted anew after each twentieth part of its trials, at least each 20 results. Where
// the context asks for it, it computes on a thread of its own and answers kWait meanwhile: see ask_ahead.
SearcherFactory gp(const GpOptions& options = {});

}  // namespace volador::tune
