// Umbrella header of the tuner: search spaces, searchers, schedulers, trainables, tune::run and its results.
#pragma once

#include <filesystem>
#include <optional>
#include <type_traits>
#include <utility>

#include "tune/determined/determined_run.h"
#include "tune/determined/determined_search.h"
#include "tune/execution/callback.h"
#include "tune/execution/experiment_request.h"
#include "tune/execution/media.h"
#include "tune/execution/run_options.h"
#include "tune/execution/trainable.h"
#include "tune/execution/trainable_registry.h"
#include "tune/execution/trial_tags.h"
#include "tune/loop/metrics.h"
#include "tune/loop/objectives.h"
#include "tune/loop/stopper.h"
#include "tune/loop/trial.h"
#include "tune/plots/plot.h"
#include "tune/results/analysis.h"
#include "tune/schedulers/asha_scheduler.h"
#include "tune/schedulers/fifo_scheduler.h"
#include "tune/schedulers/hyperband_scheduler.h"
#include "tune/schedulers/median_stopping_scheduler.h"
#include "tune/schedulers/pbt_replay_scheduler.h"
#include "tune/schedulers/pbt_scheduler.h"
#include "tune/schedulers/percentile_scheduler.h"
#include "tune/schedulers/resource_changing_scheduler.h"
#include "tune/schedulers/scheduler.h"
#include "tune/schedulers/wilcoxon_scheduler.h"
#include "tune/searchers/auto_searcher.h"
#include "tune/searchers/bohb_searcher.h"
#include "tune/searchers/cmaes_searcher.h"
#include "tune/searchers/gp_searcher.h"
#include "tune/searchers/halton_searcher.h"
#include "tune/searchers/nsga2_searcher.h"
#include "tune/searchers/search_wrappers.h"
#include "tune/searchers/searcher.h"
#include "tune/searchers/sobol_searcher.h"
#include "tune/searchers/tpe_searcher.h"
#include "tune/searchers/trees_searcher.h"
#include "tune/searchers/variant_searcher.h"
#include "tune/simulation/simulation.h"
#include "tune/space/config.h"
#include "tune/space/space.h"
#include "tune/study/study.h"

namespace volador::tune {

// Runs trials until all have ended and returns the results; blocks the calling thread. Requires volador::init(). A
// first Ctrl-C lets trials checkpoint and stop, and run() returns normally; a second one ends them at once. Throws
// volador::Exception: kInvalidArgument (an option, the metric), kInfeasible (no node can hold a trial),
// kPermissionDenied and kUnavailable (the results directory, the cluster), kApplication (a trial failed permanently,
// unless raise_on_failed_trial is off).
Analysis run(const TrainableRef& trainable, RunOptions options = {});

// tune::run<TrainDigits>({.space = …, .metric = "accuracy"})
template <TrainableClass T>
Analysis run(RunOptions options = {}) {
  return run(with_parameters<T>(), std::move(options));
}
// tune::run<&train>({.space = …, .metric = "loss", .mode = tune::Mode::kMin})
template <auto F>
Analysis run(RunOptions options = {}) {
  return run(with_parameters<F>(), std::move(options));
}

// tune::run([](const tune::Config& config) { … }, {…}): a lambda without captures.
template <class F>
requires(!std::is_same_v<std::remove_cvref_t<F>, TrainableRef> &&
         !std::is_same_v<std::remove_cvref_t<F>, RunOptions>) Analysis run(F&&, RunOptions options = {}) {
  using Function = std::remove_cvref_t<F>;
  constexpr bool travels = std::is_empty_v<Function> && std::is_default_constructible_v<Function>;
  static_assert(
      travels,
      "volador: a function with captures or a pointer to one cannot travel to other processes: name the function, "
      "tune::run<&train>({…}), and give what it captured to tune::with_parameters<&train>(values…)");
  if constexpr (travels) {
    static_assert(std::is_invocable_v<Function&, const Config&>,
                  "volador: a trial's function takes (const tune::Config&)");
    return run(TrainableRef{trainables::LambdaEntry<Function>::name, "trial", to_bytes()}, std::move(options));
  } else {
    return run(TrainableRef{}, std::move(options));
  }
}

// Object form of tune::run, as in Ray Tune:
//
//   auto tuner = tune::Tuner::of<TrainDigits>({.space = …, .metric = "accuracy"});
//   tune::Analysis analysis = tuner.fit();
//   auto again = tune::Tuner::restore(analysis.directory(), tune::with_parameters<TrainDigits>(), {…, .num_samples = 48});
class Tuner {
 public:
  explicit Tuner(TrainableRef trainable, RunOptions options = {})
      : trainable_(std::move(trainable)), options_(std::move(options)) {}
  template <TrainableClass T>
  static Tuner of(RunOptions options = {}) {
    return Tuner(with_parameters<T>(), std::move(options));
  }
  template <auto F>
  static Tuner of(RunOptions options = {}) {
    return Tuner(with_parameters<F>(), std::move(options));
  }
  // Returns a tuner that resumes the run of this directory with its options; num_samples and time_budget may be larger.
  // Throws kNotFound if there is no run; fit() reports other differences.
  static Tuner restore(const std::filesystem::path& directory, TrainableRef trainable, RunOptions options);
  static bool can_restore(const std::filesystem::path& directory);

  // As tune::run. Calling it again resumes the same run: with more samples, or after an interrupt.
  Analysis fit();
  // Result of the last fit(). Throws kUnavailable before that.
  const Analysis& get_results() const;
  RunOptions& options() { return options_; }

 private:
  TrainableRef trainable_;
  RunOptions options_;
  std::optional<Analysis> results_;
};

}  // namespace volador::tune
