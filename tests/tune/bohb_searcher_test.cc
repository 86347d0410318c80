#include "tune/searchers/bohb_searcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/how_many.h"
#include "tests/tune/searcher_runs.h"
#include "tune/schedulers/hyperband_scheduler.h"
#include "tune/searchers/variant_searcher.h"
#include "tune/simulation/simulation.h"

namespace volador::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Space kTwo = {{"x", uniform(0, 1)}, {"kind", choice({"a", "b", "c"})}};

std::unique_ptr<Searcher> make_bohb(const BohbOptions& options, const Space& space = kTwo, uint64_t seed = 1) {
  return std::move(
      *bohb(options)({.space = space, .metric = "m", .mode = Mode::kMin, .num_samples = -1, .seed = seed}));
}

double bowl(const Config& config) { return std::abs(config.real("x") - 0.3) + (config.text("kind") == "b" ? 0 : 0.5); }

TEST(Bohb, DrawsNearTheGoodOnceItHasEnough) {
  const auto searcher = make_bohb({});  // A third is random.
  const auto configs = search(*searcher, 120, bowl);
  int near = 0;
  for (size_t i = 60; i < configs.size(); ++i) near += bowl(configs[i]) < 0.2;
  EXPECT_GT(near, 25);  // Random search: 8.
}

TEST(Bohb, LearnsFromReportsOfRunningTrials) {
  const auto searcher = make_bohb({.max_t = 9});
  int near = 0;
  for (int64_t i = 0; i < 120; ++i) {
    const auto config = searcher->suggest(i).value().config;
    if (i >= 60) near += bowl(config) < 0.2;
    searcher->on_result({i, 1, bowl(config)});  // It pauses at its first rung.
  }
  EXPECT_GT(near, 25);
}

TEST(Bohb, TheLargestBudgetThatHasEnoughDecides) {
  // At one step low values look good, at nine steps high ones do.
  const auto searcher = make_bohb({.max_t = 9, .random_fraction = 0}, {{"x", uniform(0, 1)}});
  for (int64_t i = 0; i < 40; ++i) {
    const double x = searcher->suggest(i).value().config.real("x");
    searcher->on_result({i, 1, x});
    if (i < 10) searcher->on_result({i, 9, -x});
    searcher->on_complete(i, Observation{i, i < 10 ? 9 : 1, i < 10 ? -x : x});
  }
  double sum = 0;
  for (int64_t i = 40; i < 60; ++i) sum += searcher->suggest(i).value().config.real("x") / 20;
  EXPECT_GT(sum, 0.6);
}

TEST(Bohb, AFractionIsRandom) {
  const auto all_random = make_bohb({.random_fraction = 1}), model = make_bohb({.random_fraction = 0});
  const auto spread = [](Searcher& searcher) {
    const auto configs = search(searcher, 120, bowl);
    int far = 0;
    for (size_t i = 60; i < configs.size(); ++i) far += bowl(configs[i]) > 0.5;
    return far;
  };
  EXPECT_GT(spread(*all_random), spread(*model) + 20);
}

TEST(Bohb, FailedTrialsCountAsTheWorst) {
  const auto searcher = make_bohb({.random_fraction = 0}, {{"x", uniform(0, 1)}});
  int low = 0;
  for (int64_t i = 0; i < 80; ++i) {
    const double x = searcher->suggest(i).value().config.real("x");
    if (i >= 50) low += x < 0.5;
    searcher->on_complete(i, x < 0.5 ? std::nullopt : std::optional(Observation{i, 1, x}));
  }
  EXPECT_LT(low, 8);
}

TEST(Bohb, FindsMoreThanRandomSearchOnItsHyperBand) {
  constexpr uint64_t kSeeds = how_many(100U, 4U);
  uint64_t wins = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SimulationOptions options{.space = {{"x", uniform(0, 1)}, {"y", uniform(0, 1)}, {"z", uniform(0, 1)}},
                              .num_samples = 150,
                              .scheduler = hyperband_for_bohb({.max_t = 27, .eta = 3}),
                              .slots = 4,
                              .max_steps = 27,
                              .seed = seed};
    options.workload = {.value =
                            [](const Workload::At& at) {
                              double value = 1;
                              for (const char* name : {"x", "y", "z"}) value -= std::pow(at.config.real(name) - 0.4, 2);
                              return value - 0.3 / static_cast<double>(at.step);
                            },
                        .seconds = [](const Workload::At&) { return 1.0; }};
    const double random = *simulate(options).value().best;
    options.searcher = bohb({.max_t = 27});
    wins += *simulate(options).value().best > random;
  }
  EXPECT_GE(wins, 11 * kSeeds / 20);
}

TEST(Bohb, RefusesOptionsOutOfRange) {
  const auto message = [](const BohbOptions& options) {
    return bohb(options)({.space = kTwo, .metric = "m", .num_samples = 3}).error().message;
  };
  EXPECT_THAT(message({.max_t = 0}), HasSubstr("bohb.max_t: expected 1 to 2^53 steps, got 0"));
  EXPECT_THAT(message({.eta = 1}), HasSubstr("bohb.eta"));
  EXPECT_THAT(message({.top_n_percent = 100}), HasSubstr("bohb.top_n_percent"));
  EXPECT_THAT(message({.num_samples = 0}), HasSubstr("bohb.num_samples"));
  EXPECT_THAT(message({.random_fraction = -0.1}), HasSubstr("bohb.random_fraction"));
  EXPECT_THAT(message({.bandwidth_factor = 0}), HasSubstr("bohb.bandwidth_factor"));
  EXPECT_THAT(message({.history_max = 1}), HasSubstr("bohb.history_max"));
}

}  // namespace
}  // namespace volador::tune
