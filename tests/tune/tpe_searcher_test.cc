#include "tune/searchers/tpe_searcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <set>

#include "runtime/random.h"
#include "tests/tune/searcher_runs.h"
#include "tune/searchers/fast_math.h"
#include "tune/searchers/parzen_estimator.h"
#include "tune/searchers/search_wrappers.h"
#include "tune/searchers/variant_searcher.h"

namespace volador::tune {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

std::unique_ptr<Searcher> make_tpe(const SearcherFactory& factory, const Space& space, uint64_t seed = 1,
                                   int64_t num_samples = -1, Mode mode = Mode::kMin) {
  return factory({.space = space, .metric = "m", .mode = mode, .num_samples = num_samples, .seed = seed}).value();
}

// ---- The estimator. The widths are those of Optuna's tests on [-1, 1], here on [0, 1].

TEST(KernelWidths, AreTheLargerGapToANeighbour) {
  const auto widths = [](std::vector<double> on_two, bool clip, bool endpoints) {
    for (double& at : on_two) at = (at + 1) / 2;
    auto out = kernel_widths(on_two, {.magic_clip = clip, .endpoints = endpoints});
    for (double& width : out) width *= 2;
    return out;
  };
  const auto near = [](std::vector<double> expected) { return Pointwise(DoubleNear(1e-12), expected); };
  EXPECT_THAT(widths({}, false, true), near({}));
  EXPECT_THAT(widths({0.4}, false, true), near({1.4}));
  EXPECT_THAT(widths({-0.3, 0.3}, false, true), near({0.7, 0.7}));
  EXPECT_THAT(widths({-0.3, 0.3}, false, false), near({0.6, 0.6}));
  EXPECT_THAT(widths({-0.4, -0.4, 0.41, 0.42}, false, true), near({0.6, 0.81, 0.81, 0.58}));
  EXPECT_THAT(widths({-0.4, 0.4, 0.41, 0.42}, false, true), near({0.8, 0.8, 0.01, 0.58}));
  EXPECT_THAT(widths({-0.4, 0.4, 0.41, 0.42}, true, true), near({0.8, 0.8, 1.0 / 3, 0.58}));
}

ParzenData data_of(const std::vector<std::vector<double>>& columns) {
  ParzenData data{.weights = std::vector<double>(columns[0].size(), 1), .columns = columns, .orders = {}};
  for (const auto& column : columns) {
    std::vector<uint32_t> order(column.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return column[a] < column[b]; });
    data.orders.push_back(order);
  }
  return data;
}

TEST(ParzenEstimator, IntegratesToOneOverACellOrAContinuum) {
  const SearchDimensions dimensions({{"x", uniform(0, 1)},
                                     {"i", randint(0, 7)},
                                     {"l", lograndint(1, 9)},
                                     {"q", quniform(0, 1, 0.25)},
                                     {"c", choice({"a", "b", "c"})}},
                                    0);
  constexpr double kRootOfTwoPi = 2.5066282746310002;
  SeededRandom random(5);
  std::vector<Point> points;
  for (int i = 0; i < 30; ++i) points.push_back(dimensions.random_point(random));
  for (size_t d = 0; d < dimensions.size(); ++d) {
    std::vector<double> column;
    for (const Point& point : points) column.push_back(point[d]);
    const ParzenData data = data_of({column});
    const std::vector<size_t> which = {d};
    const ParzenOptions options;
    const ParzenEstimator estimator(dimensions, which, data, options);
    const bool continuous = dimensions[d].cells == 0;
    const size_t steps = continuous ? 4000 : dimensions[d].cells;
    std::vector<double> at;
    for (size_t i = 0; i < steps; ++i)
      at.push_back(continuous ? (static_cast<double>(i) + 0.5) / 4000 : dimensions.middle(d, i));
    double sum = 0;
    for (const float logarithm : estimator.log_densities({at})) sum += std::exp(static_cast<double>(logarithm));
    if (continuous) sum /= 4000 * kRootOfTwoPi;  // The omitted constant.
    EXPECT_NEAR(sum, 1, 1e-4) << dimensions[d].key;
  }
}

TEST(ParzenEstimator, GivesAnOptionTheSharesOfOptunasTests) {
  for (const auto& [options, expected] :
       {std::pair<size_t, std::vector<double>>{3, {0.2, 0.6, 0.2}}, {4, {1.0 / 6, 0.5, 1.0 / 6, 1.0 / 6}}}) {
    const SearchDimensions dimensions({{"c", choice(std::vector<int>(options, 0))}}, 0);
    ParzenData data = data_of({{dimensions.middle(0, 1)}});
    data.weights = {1e9};  // Makes the prior's own kernel negligible.
    const std::vector<size_t> which = {0};
    const ParzenOptions defaults;
    const ParzenEstimator estimator(dimensions, which, data, defaults);
    std::vector<double> at;
    for (size_t i = 0; i < options; ++i) at.push_back(dimensions.middle(0, i));
    const auto logarithms = estimator.log_densities({at});
    for (size_t i = 0; i < options; ++i) EXPECT_NEAR(std::exp(logarithms[i]), expected[i], 1e-5) << options;
  }
}

// Expected values in double precision by scipy.stats.norm: a mixture of products of truncated normal distributions, on
// [0, 1], on cells of 0.25 from -0.125 to 1.125, on [log 1, log 9] with integer cells, and of fractions of three
// options.
TEST(ParzenEstimator, HasTheDensitiesOfTheFormula) {
  const SearchDimensions dimensions(
      {{"x", uniform(0, 1)}, {"q", quniform(0, 1, 0.25)}, {"l", lograndint(1, 9)}, {"c", choice({"a", "b", "c"})}}, 0);
  const auto columns_of = [&](const std::vector<double>& x, const std::vector<double>& q, const std::vector<int>& l,
                              const std::vector<int>& c) {
    std::vector<std::vector<double>> columns = {x, {}, {}, {}};
    for (size_t i = 0; i < x.size(); ++i) {
      columns[1].push_back(dimensions.middle(1, static_cast<uint64_t>(4 * q[i])));
      columns[2].push_back(dimensions.middle(2, static_cast<uint64_t>(l[i] - 1)));
      columns[3].push_back(dimensions.middle(3, static_cast<uint64_t>(c[i])));
    }
    return columns;
  };
  ParzenData data =
      data_of(columns_of({0.1, 0.15, 0.7, 0.72, 0.9}, {0, 0.25, 0.25, 1, 0.75}, {1, 1, 2, 8, 3}, {0, 2, 2, 1, 2}));
  data.weights = {0.2, 0.6, 1, 1, 1};
  const std::vector<size_t> which = {0, 1, 2, 3};
  const ParzenOptions options;
  const ParzenEstimator estimator(dimensions, which, data, options);
  const auto logarithms =
      estimator.log_densities(columns_of({0.12, 0.5, 0.95, 0.02}, {0.25, 0, 1, 0.5}, {1, 8, 4, 2}, {2, 1, 0, 2}));
  const double expected[] = {-2.9601292422, -7.1843354660, -5.1920668416, -4.0188776609};
  const double left_out = std::log(2 * std::numbers::pi) / 2;  // The constant of one density.
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(logarithms[i] - left_out, expected[i], 1e-4) << i;
}

TEST(ParzenEstimator, DrawsWhatItsDensitySays) {
  const SearchDimensions dimensions({{"i", randint(0, 6)}, {"c", choice({"a", "b", "c"})}}, 0);
  const ParzenData data = data_of({{dimensions.middle(0, 1), dimensions.middle(0, 1), dimensions.middle(0, 5)},
                                   {dimensions.middle(1, 2), dimensions.middle(1, 0), dimensions.middle(1, 0)}});
  const std::vector<size_t> which = {0, 1};
  const ParzenOptions options;
  const ParzenEstimator estimator(dimensions, which, data, options);
  SeededRandom random(6);
  std::map<std::pair<uint64_t, uint64_t>, int> drawn;
  constexpr int kDraws = 20'000;
  for (int i = 0; i < kDraws; ++i) {
    const auto one = estimator.sample(random);
    ++drawn[{dimensions.cell_of(0, one[0]), dimensions.cell_of(1, one[1])}];
  }
  for (uint64_t i = 0; i < 6; ++i) {
    for (uint64_t c = 0; c < 3; ++c) {
      const auto expected =
          std::exp(estimator.log_densities({{dimensions.middle(0, i)}, {dimensions.middle(1, c)}})[0]);
      EXPECT_NEAR(drawn[std::pair(i, c)] / static_cast<double>(kDraws), expected, 0.015) << i << " " << c;
    }
  }
}

TEST(FastMath, IsAsPreciseAsItSays) {
  for (float x = -80; x < 10; x += 0.37F) {
    EXPECT_NEAR(fast_exp(x) / std::exp(x), 1, 2e-6) << x;
    const float y = std::exp(x);
    EXPECT_NEAR(fast_log(y), std::log(y), 2e-6 * std::max(1.0F, std::abs(x))) << y;
  }
  EXPECT_EQ(fast_exp(-1000), 0);
  for (float z = 0; z < 5; z += 0.1F) EXPECT_NEAR(fast_normal_tail(z), std::erfc(z / std::sqrt(2.0F)) / 2, 2e-7) << z;
  const auto mass = [](float low, float high) {
    const double below = std::erfc(std::abs(low) / std::numbers::sqrt2) / 2;
    const double above = std::erfc(std::abs(high) / std::numbers::sqrt2) / 2;
    return low * high > 0 ? std::abs(below - above) : 1 - below - above;
  };
  for (float low = -12; low < 12; low += 0.25F)
    EXPECT_NEAR(fast_normal_mass(low, low + 0.5F) / mass(low, low + 0.5F), 1, 0.4) << low;
  for (float low = -4; low < 4; low += 0.25F)
    EXPECT_NEAR(fast_normal_mass(low, low + 0.5F), mass(low, low + 0.5F), 4e-7) << low;
}

// ---- The searcher.

TEST(Tpe, FindsBetterPointsThanRandomSearch) {
  const Space space = {{"x", uniform(-5, 10)}, {"y", uniform(0, 15)}, {"rate", loguniform(1e-5, 1)}};
  const auto bowl = [](const Config& config) {
    return std::pow(config.real("x") - 2, 2) + std::pow(config.real("y") - 6, 2) +
           std::pow(std::log10(config.real("rate")) + 3, 2);
  };
  const auto best = [&](const SearcherFactory& factory, uint64_t seed) {
    double found = 1e9;
    const auto searcher = make_tpe(factory, space, seed);
    for (const Config& config : search(*searcher, 100, bowl)) found = std::min(found, bowl(config));
    return found;
  };
  int joint_wins = 0, single_wins = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const double random = best(random_search(), seed);
    joint_wins += best(tpe(), seed) < random ? 1 : 0;
    single_wins += best(tpe({.multivariate = false}), seed) < random ? 1 : 0;
  }
  EXPECT_GE(joint_wins, 17);
  EXPECT_GE(single_wins, 17);
}

TEST(Tpe, SeeksTheLargestValuesWhereTheModeSaysSo) {
  const Space space = {{"x", uniform(0, 1)}};
  const auto mean_of_last = [&](Mode mode) {
    const auto searcher = make_tpe(tpe(), space, 3, -1, mode);
    double sum = 0;
    const auto configs = search(*searcher, 60, [](const Config& config) { return config.real("x"); });
    for (size_t i = 40; i < 60; ++i) sum += configs[i].real("x") / 20;
    return sum;
  };
  EXPECT_GT(mean_of_last(Mode::kMax), 0.75);
  EXPECT_LT(mean_of_last(Mode::kMin), 0.25);
}

TEST(Tpe, LearnsWhichOptionIsGoodAndWhatSuitsIt) {
  const Space space = {
      {"kind", choice({SpaceNode{{"name", "a"}, {"x", uniform(0, 1)}},
                       SpaceNode{{"name", "b"}, {"x", uniform(0, 1)}, {"y", uniform(0, 1)}}, SpaceNode("c")})}};
  const auto loss = [](const Config& config) {
    if (!config.find("kind")->is_map()) return 2.0;
    if (config.text("kind.name") == "a") return 1 + config.real("kind.x");
    return std::abs(config.real("kind.x") - 0.9) + std::abs(config.real("kind.y") - 0.1);
  };
  for (const auto& options : {TpeOptions{}, TpeOptions{.group = false}, TpeOptions{.multivariate = false}}) {
    const auto searcher = make_tpe(tpe(options), space, 4);
    const auto configs = search(*searcher, 120, loss);
    int good = 0;
    for (size_t i = 80; i < 120; ++i) good += loss(configs[i]) < 0.5 ? 1 : 0;
    EXPECT_GE(good, 25);
  }
}

TEST(Tpe, ProposesNoConfigurationTwiceBeforeAllWereTried) {
  const Space space = {{"a", randint(0, 5)}, {"b", choice({"x", "y", "z"})}, {"c", quniform(0, 1, 0.5)}};
  for (const bool multivariate : {true, false}) {
    const auto searcher = make_tpe(tpe({.multivariate = multivariate}), space, 5);
    std::set<std::string> seen;
    const auto configs = search(*searcher, 60, [](const Config& config) { return std::abs(config.real("a") - 2); });
    for (size_t i = 0; i < 45; ++i) EXPECT_TRUE(seen.insert(configs[i].to_json()).second) << i;
    EXPECT_EQ(seen.size(), 45u);
  }
}

TEST(Tpe, KeepsParallelTrialsApart) {
  const Space space = {{"x", uniform(0, 1)}, {"y", uniform(0, 1)}};
  const auto spread = [&](bool liar) {
    const auto searcher = make_tpe(tpe({.constant_liar = liar}), space, 6);
    (void)search(*searcher, 60, [](const Config& config) { return std::abs(config.real("x") - 0.5); });
    std::vector<double> xs;
    for (int64_t i = 60; i < 160; ++i) xs.push_back(searcher->suggest(i).value().config.real("x"));
    double distance = 0;
    for (const double x : xs) distance += std::abs(x - 0.5) / static_cast<double>(xs.size());
    return distance;
  };
  EXPECT_GT(spread(true), 1.4 * spread(false));
}

TEST(Tpe, AvoidsWhatFails) {
  const auto searcher = make_tpe(tpe(), {{"x", uniform(0, 1)}}, 7);
  int failed = 0;
  for (int64_t i = 0; i < 80; ++i) {
    const double x = searcher->suggest(i).value().config.real("x");
    if (x < 0.5) {
      searcher->on_complete(i, std::nullopt);
      failed += i >= 40 ? 1 : 0;
    } else {
      searcher->on_complete(i, Observation{i, 1, std::abs(x - 0.6)});
    }
  }
  EXPECT_LE(failed, 12);
}

TEST(Tpe, LearnsFromThePointsThatWereTriedInstead) {
  const Space space = {{"x", uniform(0, 1)}, {"n", randint(0, 1000)}};
  std::vector<Config> points;
  for (int i = 0; i < 12; ++i) points.push_back({{"x", 0.3 + 0.001 * i}, {"n", 500 + i}});
  const auto searcher = make_tpe(points_to_evaluate(points, tpe()), space, 8, 200);
  const auto configs = search(*searcher, 40, [](const Config& config) { return std::abs(config.real("x") - 0.3); });
  int near = 0;
  for (size_t i = 12; i < 40; ++i) near += std::abs(configs[i].real("x") - 0.3) < 0.2 ? 1 : 0;
  EXPECT_GE(near, 14);
}

TEST(Tpe, ForgetsTheOldestOfTheBadOnes) {
  const auto size = [](int64_t trials) {
    const auto searcher = make_tpe(tpe({.history_max = 60}), {{"x", uniform(0, 1)}}, 9);
    (void)search(*searcher, trials, [](const Config& config) { return config.real("x"); });
    return searcher->snapshot().size();
  };
  EXPECT_LT(size(400), size(60) + 400);
}

TEST(Tpe, SearchesEachPointOfTheGridByItself) {
  const Space space = {{"side", grid_search({"left", "right"})}, {"x", uniform(0, 1)}};
  const auto searcher = make_tpe(tpe(), space, 10, 40);
  EXPECT_EQ(searcher->total(), 80);
  const auto configs = search(*searcher, 80, [](const Config& config) {
    return config.text("side") == "left" ? config.real("x") : 1 - config.real("x");
  });
  double left = 0, right = 0;
  for (size_t i = 50; i < 80; ++i) (configs[i].text("side") == "left" ? left : right) += configs[i].real("x") / 15;
  EXPECT_LT(left, 0.3);
  EXPECT_GT(right, 0.7);
}

// The more parameters, the fewer trials are close enough to the best to learn from.
TEST(Tpe, FindsMoreOfTenParametersThanWithALargerShareOfGoodTrials) {
  Space space;
  for (int i = 0; i < 10; ++i) space.set("x" + std::to_string(i), uniform(-5, 5));
  const auto best = [&](const TpeOptions& options, uint64_t seed) {
    const auto searcher =
        tpe(options)({.space = space, .metric = "m", .mode = Mode::kMin, .num_samples = -1, .seed = seed}).value();
    const Function bowl = [seed](const Config& config) {
      SeededRandom shift(seed);
      double sum = 0;
      for (int i = 0; i < 10; ++i) sum += std::pow(config.real("x" + std::to_string(i)) - 8 * shift.real() + 4, 2);
      return sum;
    };
    return least(search(*searcher, 200, bowl), bowl);
  };
  int better = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) better += best({}, seed) < best({.gamma = 0.15}, seed);
  EXPECT_GE(better, 8);
}

// Minimum after this many trials, mean of several seeds. It is 0 at x 0.8, rate 0.1, kind c.
double least_with_prior(const Config& prior, int64_t trials) {
  const Space space = {{"x", uniform(0, 1)}, {"lr", loguniform(1e-4, 1)}, {"kind", choice({"a", "b", "c", "d"})}};
  const Function value = [](const Config& config) {
    const double x = config.real("x") - 0.8, rate = (std::log10(config.real("lr")) + 1) / 4;
    return x * x + rate * rate + (config.text("kind") == "c" ? 0 : 0.5);
  };
  double sum = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const auto searcher =
        tpe({.prior = prior})({.space = space, .metric = "m", .mode = Mode::kMin, .num_samples = -1, .seed = seed})
            .value();
    sum += least(search(*searcher, trials, value), value) / 8;
  }
  return sum;
}

TEST(Tpe, ProfitsFromARightPriorAndForgetsAWrongOne) {
  EXPECT_LT(least_with_prior({{"x", 0.7}, {"lr", 0.04}, {"kind", "c"}}, 10), least_with_prior({}, 10) / 2);
  EXPECT_LT(least_with_prior({{"x", 0.2}, {"lr", 0.001}, {"kind", "a"}}, 60), 0.05);
}

TEST(Tpe, TriesThePriorFirstAndChecksIt) {
  const Space space = {
      {"x", uniform(0, 1)},
      {"model", choice({SpaceNode{{"name", "svm"}, {"c", loguniform(1e-3, 1e3)}}, SpaceNode("none")})}};
  const auto make = [&](const Config& prior) {
    return tpe({.prior = prior})({.space = space, .metric = "m", .mode = Mode::kMin, .num_samples = -1, .seed = 1});
  };
  const Config first = make({{"model", {{"name", "svm"}, {"c", 10.0}}}}).value()->suggest(0).value().config;
  EXPECT_EQ(first.text("model.name"), "svm");
  EXPECT_NEAR(first.real("model.c"), 10, 1e-6);
  EXPECT_NE(make({{"y", 1.0}}).error().message.find("tpe.prior"), std::string::npos);
  EXPECT_NE(make({{"x", 7.0}}).error().message.find("x"), std::string::npos);
  EXPECT_FALSE(tpe({.prior_width = 0})({.space = space, .metric = "m"}));
}

TEST(Tpe, RefusesOptionsOutOfRange) {
  const auto refusal = [](const TpeOptions& options) {
    const auto made = tpe(options)({.space = {{"x", uniform(0, 1)}}, .num_samples = 1});
    return made ? std::string() : made.error().message;
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_THAT(refusal({.n_startup_trials = 0}), HasSubstr("tpe.n_startup_trials: expected at least 1, got 0"));
  EXPECT_THAT(refusal({.n_ei_candidates = 0}), HasSubstr("tpe.n_ei_candidates"));
  EXPECT_THAT(refusal({.gamma = 1}), HasSubstr("tpe.gamma: expected a share above 0 and below 1, got 1"));
  EXPECT_THAT(refusal({.gamma = std::nan("")}), HasSubstr("tpe.gamma"));
  EXPECT_THAT(refusal({.gamma_max = 0}), HasSubstr("tpe.gamma_max"));
  EXPECT_THAT(refusal({.prior_weight = 0}), HasSubstr("tpe.prior_weight"));
  EXPECT_THAT(refusal({.history_max = 49}),
              HasSubstr("tpe.history_max: expected at least twice gamma_max, 25, got 49"));
}

TEST(Tpe, RefusesAGridTooLargeForAModelEach) {
  Space space = {{"x", uniform(0, 1)}};
  space.set("a", grid_search(std::vector<int>(40)));
  space.set("b", grid_search(std::vector<int>(40)));
  const auto made = tpe()({.space = space, .num_samples = 1});
  ASSERT_FALSE(made.has_value());
  EXPECT_THAT(made.error().message, HasSubstr("1600 points"));
}

}  // namespace
}  // namespace volador::tune
