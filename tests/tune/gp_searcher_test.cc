#include "tune/searchers/gp_searcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "tests/tune/odd_values.h"
#include "tests/tune/searcher_runs.h"
#include "tune/searchers/variant_searcher.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Searcher> make_gp(const GpOptions& options, const Space& space, uint64_t seed = 1) {
  return gp(options)({.space = space, .metric = "m", .mode = Mode::kMin, .num_samples = -1, .seed = seed}).value();
}

const Space kSquare = {{"x", uniform(-5, 10)}, {"y", uniform(0, 15)}};
double branin(const Config& config) {
  constexpr double kPi = 3.14159265358979323846;
  const double x = config.real("x");
  const double y = config.real("y");
  return std::pow(y - 5.1 / (4 * kPi * kPi) * x * x + 5 / kPi * x - 6, 2) + 10 * (1 - 1 / (8 * kPi)) * std::cos(x) + 10;
}

TEST(Gp, FindsTheLowestPointOfBraninInFortyTrials) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    EXPECT_LT(least(search(*make_gp({}, kSquare, seed), 40, branin), branin), 0.41) << seed;  // The minimum is 0.3979.
  }
}

TEST(Gp, FindsOptionsIntegersAndWhatIsBelowOptions) {
  const Space space = {{"kind", choice({"a", "b", "c"})},
                       {"layers", randint(1, 9)},
                       {"mode", choice({SpaceNode{{"p", uniform(0, 1)}}, SpaceNode("off")})},
                       {"rate", loguniform(1e-5, 1)}};
  const Function loss = [](const Config& config) {
    const double mode = config.find("mode")->is_map() ? std::abs(config.real("mode.p") - 0.7) : 1;
    return std::abs(config.real("layers") - 6) / 5 + (config.text("kind") == "c" ? 0 : 0.5) + mode +
           std::pow(std::log10(config.real("rate")) + 3, 2) / 2;
  };
  for (uint64_t seed = 0; seed < 2; ++seed) EXPECT_LT(least(search(*make_gp({}, space, seed), 50, loss), loss), 0.15);
}

TEST(Gp, EachAcquisitionFunctionFindsTheLowestRegionOfBranin) {
  for (const Acquisition function : {Acquisition::kPi, Acquisition::kLcb, Acquisition::kHedge}) {
    double found = 0, random = 0;
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const GpOptions options{.acquisition = {.function = function}};
      found += least(search(*make_gp(options, kSquare, seed), 40, branin), branin) / 3;
      const auto drawn = random_search()({.space = kSquare, .num_samples = -1, .seed = seed}).value();
      random += least(search(*drawn, 40, branin), branin) / 3;
    }
    EXPECT_LT(found, 0.45) << static_cast<int>(function);
    EXPECT_LT(found - 0.3979, (random - 0.3979) / 10) << static_cast<int>(function);
  }
}

TEST(Gp, FindsTheLowestRegionByCandidatesAlone) {
  const auto searcher = make_gp({.optimizer = GpOptimizer::kSampling}, kSquare, 1);
  EXPECT_LT(least(search(*searcher, 40, branin), branin), 0.45);
}

// The gains of the functions follow from the trials, not from what was proposed.
TEST(Gp, OneThatIsToldTheSameTrialsDrawsTheSameFunction) {
  const GpOptions options{.acquisition = {.function = Acquisition::kHedge}};
  const auto first = make_gp(options, kSquare, 3);
  const auto configs = search(*first, 25, branin);
  const auto second = make_gp(options, kSquare, 3);
  for (int64_t i = 0; i < 25; ++i) {
    ASSERT_TRUE(second->skip(i, configs[static_cast<size_t>(i)]));
    second->on_complete(i, Observation{i, 1, branin(configs[static_cast<size_t>(i)])});
  }
  const auto third = make_gp(options, kSquare, 3);
  ASSERT_TRUE(third->restore(first->snapshot()));
  const Config next = first->suggest(25).value().config;
  EXPECT_EQ(third->suggest(25).value().config, next);
  // It has fitted its lengths once, the first one after each result: nearly the same lengths.
  EXPECT_NEAR(second->suggest(25).value().config.real("x"), next.real("x"), 0.05);
}

TEST(Gp, SpreadsABatch) {
  const auto searcher = make_gp({}, kSquare, 2);
  (void)search(*searcher, 15, branin);
  std::vector<Config> batch;
  for (int64_t i = 15; i < 21; ++i) batch.push_back(searcher->suggest(i).value().config);
  for (size_t i = 0; i < batch.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const double apart = std::hypot(batch[i].real("x") - batch[j].real("x"), batch[i].real("y") - batch[j].real("y"));
      EXPECT_GT(apart, 0.05) << i << " " << j;
    }
  }
}

TEST(Gp, ProposesNoConfigurationTwiceBeforeAllWereTried) {
  const Space space = {{"a", randint(0, 6)}, {"b", choice({"x", "y", "z"})}, {"c", quniform(0, 1, 0.5)}};
  std::set<std::string> seen;
  for (const Config& config : search(*make_gp({.n_startup_trials = 4}, space), 54, [](const Config& config) {
         return std::abs(config.real("a") - 2) + config.real("c");
       }))
    EXPECT_TRUE(seen.insert(config.to_json()).second);
}

TEST(Gp, TakesValuesOfAnySize) {
  const double values[] = {kInfinity, -kInfinity, 1e308, -1e308, 5, 5, std::nan(""), 1e-308, 0, 5, 5, 5};
  for (const size_t count : {size_t{1}, std::size(values)}) {  // All equal, or as given.
    const auto searcher = make_gp({.n_startup_trials = 2}, kSquare);
    for (int64_t i = 0; i < 25; ++i) {
      const auto suggestion = searcher->suggest(i);
      ASSERT_TRUE(suggestion.has_value());
      searcher->on_complete(i, Observation{i, 1, values[static_cast<size_t>(i) % count]});
    }
  }
}

TEST(Gp, RemembersNoMoreThanItWasTold) {
  const auto searcher = make_gp({.n_startup_trials = 60, .history_max = 20}, {{"x", uniform(0, 1)}});
  auto size_after = [&, next = int64_t{0}](int64_t trials) mutable {
    for (; next < trials; ++next) {
      (void)searcher->suggest(next);
      searcher->on_complete(next, Observation{next, 1, 0.5 / static_cast<double>(next + 1)});
    }
    return searcher->snapshot().size();
  };
  const size_t early = size_after(25);
  EXPECT_LT(size_after(55), early + 100);
}

TEST(Gp, RefusesOptionsOutOfRange) {
  const auto refusal = [](const GpOptions& options) {
    const auto made = gp(options)({.space = kSquare, .num_samples = 1});
    return made ? std::string() : made.error().message;
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_THAT(refusal({.n_startup_trials = 1}), HasSubstr("gp.n_startup_trials: expected at least 2, got 1"));
  EXPECT_THAT(refusal({.history_max = 19}), HasSubstr("gp.history_max: expected at least 20, got 19"));
  EXPECT_THAT(refusal({.acquisition = {.kappa = -1}}), HasSubstr("gp.kappa: expected a number of at least 0, got -1"));
}

}  // namespace
}  // namespace volador::tune
