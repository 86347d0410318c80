#include "experiments/search/searcher_settings.h"

#include "experiments/config/config_reader.h"

#include "tune/overload.h"

namespace volador::experiments {
namespace {

using tune::Overload;
using tune::determined::AdaptiveMode;
using tune::determined::SearchOptions;

AdaptiveMode mode_of(SearchMode mode) {
  switch (mode) {
    case SearchMode::kAggressive:
      return AdaptiveMode::kAggressive;
    case SearchMode::kConservative:
      return AdaptiveMode::kConservative;
    case SearchMode::kStandard:
      break;
  }
  return AdaptiveMode::kStandard;
}

void set_length(const Searcher& searcher, SearcherSettings& settings) {
  SearchOptions& options = settings.options;
  options.timed = searcher.time_metric.has_value() || !searcher.max_length;
  settings.time_metric = searcher.time_metric.value_or("");
  if (searcher.time_metric) {
    options.max_length = searcher.max_time.value_or(1);
  } else if (searcher.max_length) {
    options.max_length = searcher.max_length->amount;
    settings.unit = name_of(searcher.max_length->unit);
  }
}

}  // namespace

SearcherSettings searcher_settings(const Searcher& searcher) {
  SearcherSettings settings{.options = {.name = searcher.name, .smaller_is_better = searcher.smaller_is_better},
                            .metric = searcher.metric,
                            .unit = {},
                            .time_metric = {}};
  SearchOptions& options = settings.options;
  std::visit(Overload{[](const SingleSearch&) {}, [](const CustomSearch&) {},
                      [&](const RandomSearch& random) {
                        options.max_trials = random.max_trials;
                        options.max_concurrent_trials = random.max_concurrent_trials;
                      },
                      [&](const GridSearch& grid) { options.max_concurrent_trials = grid.max_concurrent_trials; },
                      [&](const AdaptiveAshaSearch& asha) {
                        options.max_trials = asha.max_trials;
                        options.max_concurrent_trials = asha.max_concurrent_trials;
                        options.divisor = asha.divisor;
                        options.stop_once = asha.stop_once;
                        options.max_rungs = asha.max_rungs;
                        options.mode = mode_of(asha.mode);
                        options.bracket_rungs = asha.bracket_rungs;
                      },
                      [&](const AsyncHalvingSearch& halving) {
                        options.max_trials = halving.max_trials;
                        options.max_concurrent_trials = halving.max_concurrent_trials;
                        options.divisor = halving.divisor;
                        options.stop_once = halving.stop_once;
                        options.num_rungs = halving.num_rungs;
                      }},
             searcher.method);
  set_length(searcher, settings);
  return settings;
}

Result<HyperparameterSpace> hyperparameter_space(const ExperimentConfig& config) {
  const auto whole = tune::Config::from_json(json_of(config, Secrets::kShown));
  if (!whole) return make_error(whole.error());
  return HyperparameterSpace::from((*whole)["hyperparameters"]);
}

}  // namespace volador::experiments
