// Determined's searchers in tune::run: one search decides what is tried and how long, so its searcher and its scheduler
// go together.
//
//   const auto search = tune::determined::in_tune({.name = "adaptive_asha", .max_length = 1000, .max_trials = 100});
//   tune::run<Train>({.space = {{"lr", tune::loguniform(1e-4, 1e-1)}}, .metric = "loss", .mode = tune::Mode::kMin,
//                     .searcher = search.searcher, .scheduler = search.scheduler});
#pragma once

#include "tune/determined/determined_search.h"
#include "tune/schedulers/scheduler.h"
#include "tune/searchers/searcher.h"

namespace volador::tune::determined {

struct InTune {
  SearcherFactory searcher;
  SchedulerFactory scheduler;  // Of the searcher made last.
};

// max_length in steps, max_trials instead of num_samples; the mode, the seed and the metric are those of the run. Trials
// pause to a checkpoint at a rung where stop_once is off: they must save. A trial that ends otherwise than by its search
// counts as one that exits early; a configuration that was added runs in full and is no part of the search.
//
// The factories: kInvalidArgument where an option is out of range, the space has something that Determined has not
// (normal and quantised domains, sample_from, choices between domains), or one is used without the other.
InTune in_tune(const SearchOptions& options);

// A space as hyperparameters of an experiment configuration. kInvalidArgument: Determined has no such kind; names the
// path. `grid`: integers have a point for each value, grid_search axes are categorical; else there may be none.
[[nodiscard]] Result<Config> hyperparameters_of(const Space& space, bool grid);

}  // namespace volador::tune::determined
