// Determined's searchers in tune::run: one search determines the trials and their lengths, so its searcher and its
// scheduler must be used together.
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
  SchedulerFactory scheduler;  // Belongs to the most recently created searcher.
};

// max_length counts steps, and max_trials replaces num_samples; mode, seed and metric are those of the run. Without
// stop_once trials pause with a checkpoint at a rung: they must support saving. A trial that ends for a reason outside
// the search counts as an early exit; an added configuration runs in full and is not part of the search.
//
// The factories return kInvalidArgument if an option is out of range, the space has domains that Determined lacks
// (normal and quantised domains, sample_from, choices between domains), or one factory is used without the other.
InTune in_tune(const SearchOptions& options);

// Converts a space to hyperparameters of an experiment configuration. kInvalidArgument: Determined lacks the kind of
// domain; names the path. `grid`: integers get one point per value and grid_search axes become categorical; otherwise
// grid_search is rejected.
[[nodiscard]] Result<Config> hyperparameters_of(const Space& space, bool grid);

}  // namespace volador::tune::determined
