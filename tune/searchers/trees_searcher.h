// Bayesian optimisation with an ensemble of regression trees.
#pragma once

#include <cstdint>
#include <optional>

#include "tune/searchers/acquisition.h"
#include "tune/searchers/searcher.h"
#include "tune/searchers/tree_ensemble.h"

namespace volador::tune {

struct TreesOptions {
  std::optional<uint64_t> seed = std::nullopt;  // The experiment's seed by default.
  TreeKind kind = TreeKind::kExtraTrees;
  int64_t n_startup_trials = 10;  // Trials at random points until this many have ended; at least 1.
  int64_t history_max = 1'000;    // Ended trials in the model: best and newest, half each; at least 20.
  AcquisitionOptions acquisition = {};
};

// An ensemble of trees is fitted to all trials for each proposal, and the most promising of 10,000 points is taken, or of
// all configurations where there are at most 1,000. Running trials count with the mean of all values, so that a batch
// spreads; failed ones as the worst one.
SearcherFactory trees(const TreesOptions& options = {});

}  // namespace volador::tune
