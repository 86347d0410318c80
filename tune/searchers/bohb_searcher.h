// BOHB's model: kernel density estimates of the good and the other configurations, at the largest budget that has
// enough of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tune/searchers/searcher.h"

namespace volador::tune {

struct BohbOptions {
  std::optional<uint64_t> seed = std::nullopt;  // The experiment's seed by default.
  int64_t max_t = 81;                           // Steps of a full run, as of the scheduler; at least 1.
  double eta = 3;  // As of the scheduler; above 1. Budgets are max_t, max_t / eta, and so on, in whole steps.
  int64_t min_points_in_model = 0;  // Good ones, and others, that a model needs; 0: one more than there are parameters.
  double top_n_percent = 15;        // Of a budget's trials that count as good, above 0 and below 100.
  int64_t num_samples = 64;         // Drawn near the good, the best of which is tried; 1 to 100,000.
  double random_fraction = 1.0 / 3;  // Of the trials that are random all the same, 0 to 1.
  double bandwidth_factor = 3;       // Draws lie so many bandwidths around a good one; above 0.
  double min_bandwidth = 1e-3;       // Of a parameter whose range is 1; above 0.
  int64_t history_max = 1'000;       // Ended trials that are kept, the newest; at least 10.
};

// The steps at which results count, ascending: max_t, max_t / eta and so on down to 1, cut to whole steps.
std::vector<int64_t> bohb_budgets(int64_t max_t, double eta);

// How a budget's results are divided (equation 3 of the paper): the share top_n_percent is good, but as many as a model of so
// many parameters needs at least; as many are left for the others. Nothing: the budget has too few for both.
struct BohbSplit {
  int64_t good = 0;
  int64_t others = 0;
  bool operator==(const BohbSplit&) const = default;
};
std::optional<BohbSplit> bohb_split(int64_t results, int64_t parameters, const BohbOptions& options);

// Falkner, Klein, Hutter, BOHB: Robust and Efficient Hyperparameter Optimization at Scale, ICML 2018. It is told each
// step; what a trial reported at a budget counts there while it runs, pauses or after it was stopped; failed trials
// count as the worst at the budget they were on the way to. Made for tune::hyperband_for_bohb(); works with every
// scheduler that does not change configurations. An ask costs O(num_samples × history_max × parameters).
SearcherFactory bohb(const BohbOptions& options = {});

}  // namespace volador::tune
