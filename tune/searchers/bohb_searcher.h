// BOHB's model: kernel density estimates of the good and the other configurations, at the largest budget with enough of
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tune/searchers/searcher.h"

namespace volador::tune {

struct BohbOptions {
  std::optional<uint64_t> seed = std::nullopt;  // The experiment's seed by default.
  int64_t max_t = 81;                           // Steps of a full run, as in the scheduler; at least 1.
  double eta = 3;  // As in the scheduler; above 1. Budgets are max_t, max_t / eta, and so on, in whole steps.
  int64_t min_points_in_model = 0;  // Good and other configurations that a model needs, each; 0: one more than the
                                    // number of parameters.
  double top_n_percent = 15;        // Percentage of a budget's trials that count as good, above 0 and below 100.
  int64_t num_samples = 64;         // Candidates drawn near the good ones, the best of which is proposed; 1 to 100,000.
  double random_fraction = 1.0 / 3;  // Fraction of trials that are drawn at random nevertheless, 0 to 1.
  double bandwidth_factor = 3;       // Width of the draws around a good configuration, in bandwidths; above 0.
  double min_bandwidth = 1e-3;       // For a parameter with range 1; above 0.
  int64_t history_max = 1'000;       // Ended trials that are stored, the newest; at least 10.
};

// Returns the steps at which results count, ascending: max_t, max_t / eta and so on down to 1, truncated to whole
// steps.
std::vector<int64_t> bohb_budgets(int64_t max_t, double eta);

// Splits the results of a budget (equation 3 of the paper): the fraction top_n_percent is good, but at least as many as
// a model of `parameters` parameters needs; the same minimum is left for the others. No value: the budget has too few
// results for both.
struct BohbSplit {
  int64_t good = 0;
  int64_t others = 0;
  bool operator==(const BohbSplit&) const = default;
};
std::optional<BohbSplit> bohb_split(int64_t results, int64_t parameters, const BohbOptions& options);

// Falkner, Klein, Hutter, BOHB: Robust and Efficient Hyperparameter Optimization at Scale, ICML 2018. Receives each
// step; a result at a budget counts for it even while the trial runs or pauses, or after it was stopped; failed trials
// count as the worst at the next budget that they had not reached. Designed for tune::hyperband_for_bohb(); works with
// every scheduler that does not change configurations. A suggestion costs O(num_samples × history_max × parameters).
SearcherFactory bohb(const BohbOptions& options = {});

}  // namespace volador::tune
