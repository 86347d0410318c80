// The section `searcher` of an experiment's configuration, as options of a search.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tune/determined/determined_search.h"

namespace volador::experiments {

// An experiment's hyperparameters.
using HyperparameterSpace = tune::determined::Hyperparameters;

struct SearcherSettings {
  std::string name;                         // As configured: `options.name` is the method that runs.
  tune::determined::SearchOptions options;  // Lengths in `unit`.
  std::string metric;                       // The value of validations that counts.
  std::string unit;                         // batches, records or epochs; empty: of what the program counts.
  std::string time_metric;                  // Where options.timed: the metric that says how far a trial is.
  std::vector<std::string> warnings;        // What was understood differently than written.
};

// Reads every searcher of Determined 0.24 and 0.38:
// - `time_metric` with `max_time` in the place of `max_length` gives a timed search. `single`, `random` and `grid` with
//   no length at all are timed searches of length 1, whose programs report shares.
// - `adaptive` is `adaptive_asha`, `adaptive_simple` too, and `sync_halving` is `async_halving`. Where they have a `budget`
//   instead of `max_trials`, there are as many trials as it pays for if each rung passes on its best 1/divisor.
// - `mode: agressive` is `aggressive`.
// The last two give a warning each. Unknown keys have no effect.
// kInvalidArgument: a value is missing, of a wrong type or out of range; names it.
[[nodiscard]] Result<SearcherSettings> searcher_settings(const tune::Config& searcher);

// Units that a search trains in total if each rung passes on its best 1/divisor.
double expected_units(const tune::determined::SearchOptions& options);

}  // namespace volador::experiments
