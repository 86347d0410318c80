#include <fmt/format.h>
#include <volador/volador.h>

#include <chrono>
#include <cmath>

#include "tests/bench/figure.h"

namespace volador::bench {
namespace {

constexpr int64_t kParameters = 10;
constexpr int64_t kTold = 1'000;  // Trials before the measured ones.
// Their points: random, as passed to Optuna; or the searcher's own, for CMA-ES, whose state requires its own trials.
enum class Before { kRandom, kOwn };

double bowl(const tune::Config& config) {
  double sum = 0;
  for (const auto& entry : config.entries()) sum += (entry.value.real() - 0.3) * (entry.value.real() - 0.3);
  return sum;
}

tune::SearchContext context(uint64_t seed, int64_t parameters) {
  tune::Space space;
  for (int64_t i = 0; i < parameters; ++i) space.set(fmt::format("x{}", i), tune::uniform(0, 1));
  return {.space = space, .metric = "m", .mode = tune::Mode::kMin, .num_samples = -1, .seed = seed};
}

// Mean milliseconds of an ask and a tell over `pairs` from trial 1,000 on.
double ask_milliseconds(const tune::SearcherFactory& factory, Before before, int64_t pairs, uint64_t seed,
                        int64_t parameters = kParameters) {
  const auto searcher = factory(context(seed, parameters)).value();
  const auto random = tune::random_search()(context(seed, parameters)).value();
  const auto tell = [&](int64_t index, const tune::Config& config) {
    searcher->on_complete(index, tune::Observation{index, 1, bowl(config)});
  };
  for (int64_t i = 0; i < kTold; ++i) {
    const auto config = (before == Before::kOwn ? searcher : random)->suggest(i).value().config;
    if (before == Before::kRandom) searcher->on_start(i, config);
    tell(i, config);
  }
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = kTold; i < kTold + pairs; ++i) tell(i, searcher->suggest(i).value().config);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  return took.count() / static_cast<double>(pairs);
}

Measured measure(const tune::SearcherFactory& factory, Before before, std::string note,
                 int64_t parameters = kParameters) {
  Measured measured{.note = std::move(note)};
  for (uint64_t seed = 0; seed < 5; ++seed)
    measured.values.push_back(ask_milliseconds(factory, before, 50, seed, parameters));
  return measured;
}

Measured tpe_ask() {
  return measure(tune::tpe(), Before::kRandom, "no baseline; Optuna 5.0 takes 13 ms with as many candidates");
}

Measured tpe_ask_40() { return measure(tune::tpe(), Before::kRandom, "no baseline; 40 parameters", 40); }

Measured cmaes_ask() { return measure(tune::cmaes(), Before::kOwn, "no baseline; Optuna 5.0 takes 0.8 ms"); }

Measured gp_ask() {
  Measured measured{.note =
                        "no baseline; Optuna 5.0 takes 4.6 s, with as many candidates and climbs, and all trials in "
                        "its model as here"};
  for (uint64_t seed = 0; seed < 3; ++seed)
    measured.values.push_back(ask_milliseconds(tune::gp({.history_max = 1'100}), Before::kRandom, 50, seed));
  return measured;
}

constexpr int64_t kSearchTrials = 100'000;
double mixed_metric(int64_t trial, uint32_t seed) { return static_cast<double>((trial + seed) * 7919 % 1'000'003); }

// Decisions of one bracket a second. Every trial validates as soon as it is asked to.
double determined_decisions_per_second(uint32_t seed) {
  namespace determined = tune::determined;
  const auto space =
      determined::Hyperparameters::from({{"x", {{"type", "double"}, {"minval", 0}, {"maxval", 1}}}}).value();
  const auto search = determined::Search::create({.name = "async_halving",
                                                  .max_length = 256,
                                                  .max_trials = kSearchTrials,
                                                  .max_concurrent_trials = 1000,
                                                  .stop_once = true},
                                                 space, seed)
                          .value();
  int64_t decisions = 0;
  const auto begin = std::chrono::steady_clock::now();
  determined::simulate_fifo(*search, [&](int64_t trial) {
    ++decisions;
    return mixed_metric(trial, seed);
  });
  return static_cast<double>(decisions) / seconds_since(begin);
}

double asha_decisions_per_second(uint32_t seed) {
  const auto scheduler = tune::asha({.grace_period = 1, .max_t = 256, .reduction_factor = 4})(
                             {.metric = "m", .mode = tune::Mode::kMin, .seed = seed})
                             .value();
  int64_t decisions = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t trial = 0; trial < kSearchTrials; ++trial) {
    const tune::TrialId id(static_cast<uint32_t>(trial + 1));
    scheduler->on_trial_add(id);
    for (int64_t step = 1; step <= 256; step *= 4) {
      ++decisions;
      if (scheduler->on_report({id, step, mixed_metric(trial, seed)}).value() != tune::Decision::kContinue) break;
    }
    scheduler->on_complete(id);
  }
  return static_cast<double>(decisions) / seconds_since(begin);
}

Measured determined_decisions() {
  Measured measured{.note = "decisions of tune::asha, which draws no hyperparameters, ids and seeds"};
  for (uint32_t seed = 0; seed < 3; ++seed) {
    measured.values.push_back(determined_decisions_per_second(seed));
    measured.baselines.push_back(asha_decisions_per_second(seed));
  }
  return measured;
}

}  // namespace

std::vector<Figure> search_figures() {
  return {{"tpe_ask", "ms", false, tpe_ask},
          {"tpe_ask_40", "ms", false, tpe_ask_40},
          {"cmaes_ask", "ms", false, cmaes_ask},
          {"gp_ask", "ms", false, gp_ask},
          {"determined_decisions", "decisions/s", true, determined_decisions}};
}

}  // namespace volador::bench
