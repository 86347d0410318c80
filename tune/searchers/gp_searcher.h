// Bayesian optimisation with a Gaussian process.
#pragma once

#include <cstdint>
#include <optional>

#include "tune/searchers/acquisition.h"
#include "tune/searchers/searcher.h"

namespace volador::tune {

// How the most promising point is found in a space of more than 1,000 configurations.
enum class GpOptimizer : uint8_t {
  kAscent,    // 2,048 candidates; from ten of them along the slope.
  kSampling,  // The best of 10,000 candidates.
};

struct GpOptions {
  std::optional<uint64_t> seed = std::nullopt;  // The experiment's seed by default.
  int64_t n_startup_trials = 10;                // Trials at random points until this many have ended; at least 2.
  int64_t history_max = 1'000;                  // Ended trials in the model: best and newest, half each; at least 20.
  AcquisitionOptions acquisition = {};
  GpOptimizer optimizer = GpOptimizer::kAscent;
};

// Matérn 5/2 kernel with a length scale per parameter and noise, fitted by maximum a posteriori; the
// acquisition function is maximised from many points. Running trials count with the value that the model predicts, so
// that a batch spreads (Ginsbourger, Le Riche, Carraro, 2010). Failed trials count as the worst one. The hyperparameters are refitted after each twentieth part of the trials, at least every 20
// results. If the context sets `ahead`, it computes on its own thread and returns kWait meanwhile: see ask_ahead.
SearcherFactory gp(const GpOptions& options = {});

}  // namespace volador::tune
