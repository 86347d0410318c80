#include "tune/searchers/tree_ensemble.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "runtime/random.h"

namespace volador::tune {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;

constexpr TreeKind kKinds[] = {TreeKind::kRandomForest, TreeKind::kExtraTrees, TreeKind::kBoosted};
const std::vector<Apartness> kOneNumber = {Apartness::kNumbers};

struct TreeData {
  std::vector<Point> points;
  std::vector<double> values;
};
TreeData tree_data(size_t count, size_t coordinates, uint64_t seed, const std::function<double(const Point&)>& value) {
  SeededRandom random(seed);
  TreeData out;
  for (size_t i = 0; i < count; ++i) {
    Point& point = out.points.emplace_back();
    for (size_t d = 0; d < coordinates; ++d) point.push_back(random.real());
    out.values.push_back(value(point));
  }
  return out;
}
TreeEnsemble ensemble_of(const std::vector<Apartness>& apart, const TreeData& data, const TreeOptions& options,
                         uint64_t seed = 1) {
  return {apart, data.points, data.values, options, seed};
}

TEST(TreeEnsemble, ALeafHasMeanAndVarianceOfItsPoints) {
  const TreeData data{{{0.1}, {0.2}, {0.3}, {0.7}, {0.8}, {0.9}}, {1, 2, 3, 11, 12, 13}};
  // Every tree has the two leaves of three points: variance 2/3 within, none between the trees.
  const auto beliefs = ensemble_of(kOneNumber, data, {.kind = TreeKind::kExtraTrees, .trees = 7, .leaf_min = 3})
                           .beliefs({{0.0}, {0.3}, {0.75}, {1.0}});
  EXPECT_THAT(beliefs.means, ::testing::ElementsAre(2, 2, 12, 12));
  EXPECT_THAT(beliefs.variances, Each(DoubleNear(2.0 / 3, 1e-9)));
}

TEST(TreeEnsemble, TheVarianceWithinLeavesHasALeast) {
  const TreeData data{{{0.1}, {0.9}}, {-1, 1}};
  const TreeOptions options{.kind = TreeKind::kExtraTrees, .min_variance = 0.04};
  const auto beliefs = ensemble_of(kOneNumber, data, options).beliefs({{0.05}, {0.5}, {0.95}});
  EXPECT_NEAR(beliefs.variances[0], 0.04, 1e-9);
  EXPECT_NEAR(beliefs.variances[2], 0.04, 1e-9);
  // Thresholds between the two points are uniform: in the middle about half of the trees say -1. By the law of total
  // variance: 1 - mean² between the trees, and 0.04 within.
  EXPECT_NEAR(beliefs.means[1], 0, 0.3);
  EXPECT_NEAR(beliefs.variances[1], 1 - beliefs.means[1] * beliefs.means[1] + 0.04, 1e-9);
}

TEST(TreeEnsemble, BoostedTreesEstimateQuantiles) {
  // Uniform noise in [0, 1) around a step of 10.
  SeededRandom noise(2);
  const auto data = tree_data(400, 1, 3, [&](const Point& point) { return noise.real() + (point[0] > 0.5 ? 10 : 0); });
  TreeOptions options{.kind = TreeKind::kBoosted, .stages = 100, .depth = 1};
  const auto beliefs = ensemble_of(kOneNumber, data, options).beliefs({{0.25}, {0.75}});
  EXPECT_NEAR(beliefs.means[0], 0.5, 0.1);
  EXPECT_NEAR(beliefs.means[1], 10.5, 0.1);
  for (const double variance : beliefs.variances) EXPECT_NEAR(std::sqrt(variance), 0.34, 0.08);
}

TEST(TreeEnsemble, PredictsSmoothFunctions) {
  const auto hill = [](const Point& point) {
    return std::sin(6 * point[0]) + (point[1] - 0.5) * (point[1] - 0.5) * 4 + 0 * point[2];
  };
  const std::vector<Apartness> apart(3, Apartness::kNumbers);
  const TreeData data = tree_data(300, 3, 4, hill), unseen = tree_data(300, 3, 5, hill);
  double squares = 0, sum = 0;
  for (const double value : unseen.values) sum += value / 300;
  for (const double value : unseen.values) squares += (value - sum) * (value - sum);
  for (const TreeKind kind : kKinds) {
    const auto beliefs = ensemble_of(apart, data, {.kind = kind}).beliefs(unseen.points);
    double missed = 0;
    for (size_t i = 0; i < 300; ++i) missed += std::pow(beliefs.means[i] - unseen.values[i], 2);
    EXPECT_LT(missed, 0.15 * squares) << static_cast<int>(kind);
  }
}

TEST(TreeEnsemble, SeparatesOptions) {
  const std::vector<Apartness> apart = {Apartness::kOptions, Apartness::kNumbers};
  // Options 0.1, 0.3, …, 0.9; the middle one alone is good, which no single threshold separates.
  SeededRandom random(6);
  const auto value = [&](const Point& point) {
    return (std::abs(point[0] - 0.5) < 0.01 ? -5 : 0) + 0.02 * random.real();
  };
  TreeData data;
  for (int i = 0; i < 60; ++i) {
    data.points.push_back({0.1 + 0.2 * static_cast<double>(random.below(5)), random.real()});
    data.values.push_back(value(data.points.back()));
  }
  for (const TreeKind kind : kKinds) {
    const auto beliefs = ensemble_of(apart, data, {.kind = kind, .stages = 100, .depth = 1})
                             .beliefs({{0.3, 0.5}, {0.5, 0.5}, {0.7, 0.5}});
    EXPECT_NEAR(beliefs.means[0], 0, 0.1) << static_cast<int>(kind);
    EXPECT_NEAR(beliefs.means[1], -5, 0.1) << static_cast<int>(kind);
    EXPECT_NEAR(beliefs.means[2], 0, 0.1) << static_cast<int>(kind);
  }
}

TEST(TreeEnsemble, ForestsAreLessCertainAwayFromTheData) {
  // Points in two groups of different height, and nothing between them.
  SeededRandom random(7);
  TreeData data;
  for (int i = 0; i < 40; ++i) {
    data.points.push_back({(i % 2 == 0 ? 0.0 : 0.7) + 0.3 * random.real()});
    data.values.push_back((i % 2 == 0 ? 0 : 3) + 0.1 * random.real());
  }
  for (const TreeKind kind : {TreeKind::kRandomForest, TreeKind::kExtraTrees}) {
    const auto beliefs = ensemble_of(kOneNumber, data, {.kind = kind}).beliefs({{0.15}, {0.5}, {0.85}});
    EXPECT_GT(beliefs.variances[1], 10 * beliefs.variances[0]) << static_cast<int>(kind);
    EXPECT_GT(beliefs.variances[1], 10 * beliefs.variances[2]) << static_cast<int>(kind);
  }
}

TEST(TreeEnsemble, OneSeedGivesOneEnsemble) {
  const auto data = tree_data(50, 2, 8, [](const Point& point) { return point[0] * point[1]; });
  const std::vector<Apartness> apart(2, Apartness::kNumbers);
  const auto at = tree_data(40, 2, 9, [](const Point&) { return 0; }).points;
  for (const TreeKind kind : kKinds) {
    const auto one = ensemble_of(apart, data, {.kind = kind}, 1).beliefs(at);
    const auto same = ensemble_of(apart, data, {.kind = kind}, 1).beliefs(at);
    EXPECT_EQ(one.means, same.means);
    EXPECT_EQ(one.variances, same.variances);
    const auto other = ensemble_of(apart, data, {.kind = kind}, 2).beliefs(at);
    EXPECT_EQ(one.means == other.means, kind == TreeKind::kBoosted);
  }
}

TEST(TreeEnsemble, TakesPointsThatAreAllTheSameAndValuesOfAnySize) {
  for (const TreeKind kind : kKinds) {
    const TreeData same{{{0.5}, {0.5}, {0.5}, {0.5}, {0.5}, {0.5}}, {1, 2, 3, 4, 5, 6}};
    const auto beliefs = ensemble_of(kOneNumber, same, {.kind = kind}).beliefs({{0.5}, {0}});
    EXPECT_EQ(beliefs.means[0], beliefs.means[1]);
    const TreeData one{{{0.5}}, {1e3}};
    EXPECT_THAT(ensemble_of(kOneNumber, one, {.kind = kind}).beliefs({{0.1}}).means, Each(1e3));
    const TreeData near{{{0.5}, {std::nextafter(0.5, 1)}}, {0, 1}};
    for (const double mean : ensemble_of(kOneNumber, near, {.kind = kind}).beliefs({{0.2}, {0.9}}).means)
      EXPECT_TRUE(mean >= 0 && mean <= 1);
  }
}

}  // namespace
}  // namespace volador::tune
