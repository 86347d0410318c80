#include "tune/searchers/cmaes_searcher.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/tune/searcher_runs.h"
#include "tune/searchers/search_wrappers.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Searcher> make_cmaes(const CmaesOptions& options, const Space& space, uint64_t seed = 1) {
  return cmaes(options)({.space = space, .metric = "m", .mode = Mode::kMin, .num_samples = -1, .seed = seed}).value();
}

Space cube(int dimensions) {
  Space space;
  for (int i = 0; i < dimensions; ++i) space.set(fmt::format("x{}", i), uniform(-1, 1));
  return space;
}

TEST(Cmaes, BeginsInTheMiddle) {
  const Config first =
      make_cmaes({}, {{"x", uniform(-1, 3)}, {"rate", loguniform(1e-4, 1)}})->suggest(0).value().config;
  EXPECT_NEAR(first.real("x"), 1, 1e-9);
  EXPECT_NEAR(first.real("rate"), 1e-2, 1e-9);
}

// In a generation the middle would pull the mean back and shrink the steps, regardless of its value.
TEST(Cmaes, TheFirstTrialIsNotPartOfAGeneration) {
  const Space space = {{"x", uniform(-1, 3)}, {"y", uniform(0, 1)}};
  const auto one = make_cmaes({}, space), other = make_cmaes({}, space);
  for (int64_t i = 0; i < 40; ++i) {
    const Config config = one->suggest(i).value().config;
    ASSERT_EQ(other->suggest(i).value().config, config) << i;
    const double value = config.real("x") + config.real("y");
    one->on_complete(i, Observation{i, 1, i == 0 ? -1e6 : value});
    other->on_complete(i, Observation{i, 1, i == 0 ? 1e6 : value});
  }
}

TEST(Cmaes, ConvergesOnABowl) {
  const Function bowl = [](const Config& config) {
    double sum = 0;
    for (const ConfigEntry& entry : config.entries()) sum += std::pow(entry.value.real() - 0.3, 2);
    return sum;
  };
  for (const int dimensions : {1, 2, 5, 10}) {
    const auto searcher = make_cmaes({.restarts = CmaesRestarts::kNone}, cube(dimensions));
    EXPECT_LT(least(search(*searcher, 150 * dimensions + 150, bowl), bowl), 1e-9) << dimensions;
  }
}

TEST(Cmaes, LearnsTheShapeOfALongOblongValley) {
  // Ten thousand times steeper across than along, and rotated: a coordinate-wise search fails.
  const Function valley = [](const Config& config) {
    const double x = config.real("x0") - 0.2;
    const double y = config.real("x1") + 0.4;
    return std::pow(x + y, 2) * 1e4 + std::pow(x - y, 2);
  };
  const auto searcher = make_cmaes({.restarts = CmaesRestarts::kNone}, cube(2), 2);
  EXPECT_LT(least(search(*searcher, 500, valley), valley), 1e-9);
}

TEST(Cmaes, LeavesAValleyThatIsNotTheDeepest) {
  // A wide valley at -0.5, which contains the middle, and a deeper one at 0.6.
  const Function two = [](const Config& config) {
    double wide = 0, narrow = 0;
    for (const ConfigEntry& entry : config.entries()) {
      wide += std::pow(entry.value.real() + 0.5, 2);
      narrow += std::pow(entry.value.real() - 0.6, 2);
    }
    return std::min(wide + 0.5, 2 * narrow);
  };
  int found = 0, found_without = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    found += least(search(*make_cmaes({}, cube(2), seed), 3'000, two), two) < 0.1 ? 1 : 0;
    found_without +=
        least(search(*make_cmaes({.restarts = CmaesRestarts::kNone}, cube(2), seed), 3'000, two), two) < 0.1 ? 1 : 0;
  }
  EXPECT_GE(found, 9);
  EXPECT_LT(found_without, found);
}

TEST(Cmaes, FindsIntegersAndOptionsToo) {
  const Space space = {{"layers", randint(1, 20)},
                       {"units", qlograndint(16, 512, 16)},
                       {"kind", choice({"a", "b", "c", "d"})},
                       {"mode", choice({SpaceNode{{"p", uniform(0, 1)}}, SpaceNode("off")})},
                       {"rate", loguniform(1e-5, 1)}};
  const Function loss = [](const Config& config) {
    const double mode = config.find("mode")->is_map() ? std::abs(config.real("mode.p") - 0.7) : 1;
    return std::abs(config.real("layers") - 13) / 5 + std::abs(std::log2(config.real("units") / 128)) +
           (config.text("kind") == "c" ? 0 : 1) + mode + std::abs(std::log10(config.real("rate")) + 3);
  };
  int exact = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto configs = search(*make_cmaes({}, space, seed), 600, loss);
    const Config best = *std::min_element(configs.begin(), configs.end(),
                                          [&](const Config& a, const Config& b) { return loss(a) < loss(b); });
    exact +=
        best.integer("layers") == 13 && best.integer("units") == 128 && best.text("kind") == "c" && loss(best) < 0.05;
  }
  EXPECT_GE(exact, 8);
}

TEST(Cmaes, SearchesASpaceOfChoicesOnly) {
  const Space space = {{"a", choice({1, 2, 3, 4, 5})}, {"b", choice({1, 2, 3, 4, 5})}, {"c", choice({1, 2, 3, 4, 5})}};
  const Function loss = [](const Config& config) {
    return std::abs(config.real("a") - 4) + std::abs(config.real("b") - 2) + std::abs(config.real("c") - 5);
  };
  std::set<std::string> seen;
  const auto configs = search(*make_cmaes({}, space), 125, loss);
  for (const Config& config : configs) EXPECT_TRUE(seen.insert(config.to_json()).second);
  double early = 0, late = 0;
  for (size_t i = 0; i < 30; ++i) early += loss(configs[i]) / 30;
  for (size_t i = 90; i < 120; ++i) late += loss(configs[i]) / 30;
  EXPECT_LT(early, late);  // The good ones are used up first.
}

TEST(Cmaes, TakesManyAtOnceThatEndInAnyOrder) {
  const Function bowl = [](const Config& config) {
    return std::pow(config.real("x0") - 0.3, 2) + std::pow(config.real("x1") + 0.6, 2);
  };
  const auto searcher = make_cmaes({.restarts = CmaesRestarts::kNone}, cube(2), 3);
  std::vector<Config> all;
  for (int64_t round = 0; round < 60; ++round) {
    for (int64_t i = 0; i < 16; ++i) all.push_back(searcher->suggest(round * 16 + i).value().config);
    for (int64_t i = 15; i >= 0; --i) {
      const auto index = round * 16 + i;
      searcher->on_complete(index, Observation{index, 1, bowl(all[static_cast<size_t>(index)])});
    }
  }
  EXPECT_LT(least(all, bowl), 1e-6);
}

TEST(Cmaes, KeepsAwayFromWhatFails) {
  const auto searcher = make_cmaes({}, cube(2), 4);
  int failed = 0;
  for (int64_t i = 0; i < 200; ++i) {
    const Config config = searcher->suggest(i).value().config;
    const double x = config.real("x0");
    if (x < 0) {
      searcher->on_complete(i, std::nullopt);
      failed += i >= 100 ? 1 : 0;
    } else {
      searcher->on_complete(i, Observation{i, 1, std::pow(x - 0.4, 2) + std::pow(config.real("x1"), 2)});
    }
  }
  EXPECT_LE(failed, 10);
}

TEST(Cmaes, LearnsFromPointsThatWereTriedInstead) {
  std::vector<Config> points;
  for (int i = 0; i < 12; ++i) points.push_back({{"x0", 0.8 + 0.01 * i}, {"x1", -0.8 - 0.01 * i}});
  const auto searcher = points_to_evaluate(
      points, cmaes())({.space = cube(2), .metric = "m", .mode = Mode::kMin, .num_samples = 100, .seed = 5});
  const auto configs = search(**searcher, 24, [](const Config& config) {
    return std::pow(config.real("x0") - 0.85, 2) + std::pow(config.real("x1") + 0.85, 2);
  });
  double x = 0;
  for (size_t i = 12; i < 24; ++i) x += configs[i].real("x0") / 12;
  EXPECT_GT(x, 0.3);
}

TEST(Cmaes, RefusesOptionsOutOfRange) {
  const auto refusal = [](const CmaesOptions& options) {
    const auto made = cmaes(options)({.space = cube(2), .num_samples = 1});
    return made ? std::string() : made.error().message;
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_THAT(refusal({.population = 3}),
              HasSubstr("cmaes.population: expected 4 to 100000 trials, or 0 for the usual, got 3"));
  EXPECT_THAT(refusal({.sigma = 0}), HasSubstr("cmaes.sigma: expected a share of the range above 0, at most 1, got 0"));
}

}  // namespace
}  // namespace volador::tune
