#include <gtest/gtest.h>

#include "tests/how_many.h"
#include "tests/tune/trial_simulator.h"
#include "tune/schedulers/asha_scheduler.h"
#include "tune/schedulers/fifo_scheduler.h"
#include "tune/schedulers/hyperband_scheduler.h"
#include "tune/schedulers/median_stopping_scheduler.h"
#include "tune/schedulers/pbt_scheduler.h"
#include "tune/searchers/variant_searcher.h"

namespace volador::tune {
namespace {

using testing::Faults;
using testing::SimulationOptions;
using testing::TrialSimulator;

const Space kLoopSpace = {{"lr", loguniform(1e-4, 1e-1)}, {"width", randint(8, 65)}};

std::unique_ptr<TrialLoop> make_loop(const LoopOptions& options, int64_t num_samples,
                                     const SchedulerFactory& scheduler) {
  auto loop = TrialLoop::create(
      options, random_search()({.space = kLoopSpace, .num_samples = num_samples, .seed = options.trial_key}).value(),
      scheduler({.metric = options.metric, .mode = options.mode, .seed = options.trial_key}).value());
  return std::move(loop).value();
}

// The seed varies the experiment's options, the cluster and the faults.
void simulate(uint64_t seed) {
  SeededRandom random(seed * 7919 + 1);
  const auto maybe = [&random](double most) { return random.below(2) == 0 ? 0.0 : random.real() * most; };
  LoopOptions options;
  options.metric = "accuracy";
  options.trial_key = seed;
  options.max_concurrent_trials = static_cast<int64_t>(random.below(2) * random.below(6));
  options.max_failures = static_cast<int64_t>(random.below(4)) - 1;
  options.checkpoint = {.frequency = static_cast<int64_t>(random.below(5)),
                        .at_end = random.below(2) == 0,
                        .num_to_keep = static_cast<int64_t>(random.below(4)),
                        .score_attribute = random.below(2) == 0 ? "accuracy" : ""};
  if (random.below(4) == 0) options.time_budget = std::chrono::seconds(5 + random.below(100));
  if (random.below(3) == 0) options.stop = {{"accuracy", 0.6}};
  options.stop = any_of({options.stop, max_steps(40)});
  if (random.below(3) == 0) {
    options.retry_backoff = std::chrono::seconds(1 + random.below(20));
    options.retry_backoff_max = options.retry_backoff * static_cast<int64_t>(1 + random.below(8));
  }
  options.fail_fast = options.max_failures == 0 && random.below(4) == 0;
  if (random.below(8) == 0) {
    options.can_checkpoint = false;
    options.checkpoint = {};
  }
  SimulationOptions simulation;
  simulation.seed = seed;
  simulation.faults = {.crash = maybe(0.1),
                       .node_lost = maybe(0.02),
                       .repeated = maybe(0.5),
                       .checkpoint_failed = maybe(0.3),
                       .checkpoint_unreadable = maybe(0.3),
                       .nan = maybe(0.1),
                       .clone_failed = maybe(0.3),
                       .slow_stop = maybe(0.5)};
  simulation.nodes = 1 + static_cast<int>(random.below(3));
  simulation.slots_per_node = 1 + static_cast<int>(random.below(3));
  if (random.below(3) == 0) simulation.interrupt_at_s = random.real() * 60;
  simulation.interrupt_twice = random.below(2) == 0;
  const bool fifo_runs = random.below(2) == 0;
  simulation.own_end = fifo_runs ? 6 : static_cast<int64_t>(random.below(2) * 20);
  const auto rule = random.below(3) == 0 ? AshaRule::kRay : AshaRule::kInclusive;
  const bool pauses = !fifo_runs && options.can_checkpoint && random.below(2) == 0;
  const auto halves = rule == AshaRule::kRay ? HyperBandRule::kRay : HyperBandRule::kFilled;
  const auto loop = make_loop(
      options, 1 + static_cast<int64_t>(random.below(20)),
      fifo_runs                        ? fifo()
      : pauses && random.below(2) == 0 ? pbt({.perturbation_interval = 1 + static_cast<int64_t>(random.below(6)),
                                              .hyperparam_mutations = {{"lr", loguniform(1e-4, 1e-1)}},
                                              .quantile_fraction = 0.5,
                                              .synch = random.below(2) == 0})
      : pauses && random.below(2) == 0 ? hyperband({.max_t = 9, .eta = 3, .rule = halves})
      : pauses
          ? median_stopping({.min_samples_required = 2, .hard_stop = false})
          : asha(
                {.max_t = 27, .reduction_factor = 3, .brackets = 1 + static_cast<int>(random.below(3)), .rule = rule}));
  if (random.below(3) == 0) simulation.pauses = 1 + static_cast<int>(random.below(6));
  TrialSimulator simulator(simulation, *loop);
  ASSERT_EQ(simulator.run(), "") << "seed " << seed;
  EXPECT_FALSE(simulator.end().error.has_value()) << "seed " << seed << ": " << to_string(*simulator.end().error);
}

TEST(TrialLoopSimulation, LosesNothingAndCountsNothingTwiceWhateverGoesWrong) {
  for (uint64_t seed = 1; seed <= how_many(400U, 50U); ++seed) {
    simulate(seed);
    if (HasFatalFailure()) return;
  }
}

TEST(TrialLoopSimulation, GivesTheSameConfigurationsWhateverTheClusterAndItsFaults) {
  std::optional<std::vector<std::string>> first;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto loop = make_loop({.metric = "accuracy", .trial_key = 42, .max_failures = -1}, 30,
                                asha({.max_t = 9, .reduction_factor = 3}));
    TrialSimulator simulator({.seed = seed,
                              .faults = {.crash = 0.02, .repeated = 0.2},
                              .nodes = 1 + static_cast<int>(seed % 4),
                              .slots_per_node = 1 + static_cast<int>(seed % 3)},
                             *loop);
    ASSERT_EQ(simulator.run(), "") << "seed " << seed;
    std::vector<std::string> configs;
    for (const Trial& trial : loop->trials()) configs.push_back(to_string(trial.id) + trial.config.to_json());
    if (!first) first = configs;
    EXPECT_EQ(configs, *first) << "seed " << seed;
  }
}

TEST(TrialLoopSimulation, SpreadsTheBestTrialOverItsPopulation) {
  for (const bool synch : {false, true}) {
    const auto loop = make_loop(
        {.metric = "accuracy", .trial_key = 3, .stop = max_steps(40)}, 8,
        pbt({.perturbation_interval = 5, .hyperparam_mutations = {{"lr", loguniform(1e-4, 1e-1)}}, .synch = synch}));
    TrialSimulator simulator({.seed = 3, .faults = {.crash = 0.02}, .nodes = 1, .slots_per_node = 3}, *loop);
    ASSERT_EQ(simulator.run(), "");
    EXPECT_GT(simulator.clones(), 5);
    for (const Trial& trial : loop->trials()) {
      EXPECT_GE(trial.config.real("lr"), 1e-4);
      EXPECT_LT(trial.config.real("lr"), 1e-1);
    }
  }
}

TEST(TrialLoopSimulation, KeepsEverySlotBusy) {
  const auto loop = make_loop({.metric = "accuracy"}, 40, fifo());
  TrialSimulator simulator({.seed = 3, .nodes = 2, .slots_per_node = 4, .own_end = 5}, *loop);
  ASSERT_EQ(simulator.run(), "");
  // 200 steps of 1 s on average on 8 slots take 25 s; starts cost 0.1 s, stops 0.05 s per trial, and the last round is
  // uneven.
  EXPECT_LT(simulator.elapsed_s(), 33);
  EXPECT_EQ(simulator.results().size(), 200u);
}

TEST(TrialLoopSimulation, SpendsLessWithEarlyStopping) {
  const auto full = make_loop({.metric = "accuracy"}, 50, fifo());
  TrialSimulator all({.seed = 5, .own_end = 27}, *full);
  ASSERT_EQ(all.run(), "");
  const auto halved = make_loop({.metric = "accuracy"}, 50, asha({.max_t = 27, .reduction_factor = 3}));
  TrialSimulator some({.seed = 5}, *halved);
  ASSERT_EQ(some.run(), "");
  EXPECT_LT(some.steps_executed() * 3, all.steps_executed());
  EXPECT_EQ(halved->best_trial()->id, full->best_trial()->id);
}

}  // namespace
}  // namespace volador::tune
