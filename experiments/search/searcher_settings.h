// The searcher of an experiment's configuration as options of a search.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <string>

#include "experiments/config/experiment_config.h"
#include "tune/determined/determined_search.h"

namespace volador::experiments {

// An experiment's hyperparameters.
using HyperparameterSpace = tune::determined::Hyperparameters;

struct SearcherSettings {
  tune::determined::SearchOptions options;  // Lengths in `unit`.
  std::string metric;                       // The metric of validations that decides.
  std::string unit;                         // batches, records or epochs; empty: what the program counts.
  std::string time_metric;                  // Where options.timed: the metric that says how far a trial is.
};

// `time_metric` with `max_time` in the place of `max_length` gives a timed search. Without any length the search is timed
// with the length 1: programs report shares of their full run.
SearcherSettings searcher_settings(const Searcher& searcher);

// The hyperparameters of a configuration. kInvalidArgument: the search cannot draw from them.
[[nodiscard]] Result<HyperparameterSpace> hyperparameter_space(const ExperimentConfig& config);

}  // namespace volador::experiments
