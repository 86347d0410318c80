#include "tune/plots/fanova.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "runtime/random.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;
using Function = std::function<double(const std::vector<double>&)>;

FanovaData sampled(std::vector<FanovaParameter> parameters, size_t count, uint64_t seed, const Function& function) {
  SeededRandom random(seed);
  FanovaData data{.parameters = std::move(parameters)};
  for (size_t i = 0; i < count; ++i) {
    std::vector<double> point;
    for (const FanovaParameter& parameter : data.parameters) {
      point.push_back(parameter.categories > 0 ? static_cast<double>(random.below(parameter.categories))
                                               : parameter.lo + (parameter.hi - parameter.lo) * random.real());
    }
    data.values.push_back(function(point));
    data.points.push_back(std::move(point));
  }
  return data;
}

double share_of(const Fanova& found, size_t parameter) {
  for (const ParameterShare& one : found.parameters) {
    if (one.parameter == parameter) return one.share;
  }
  return -1;
}

// For a + b with variances 4 and 1 in 5, regardless of the ranges.
TEST(Fanova, SharesOfASumAreThoseOfItsVariances) {
  const FanovaData data = sampled({{.lo = 0, .hi = 1}, {.lo = -10, .hi = 10}, {.lo = 0, .hi = 1}}, 600, 1,
                                  [](const auto& p) { return 2 * p[0] + p[1] / 20; });
  const Fanova found = fanova(data, {.seed = 3}).value();
  EXPECT_NEAR(share_of(found, 0), 0.8, 0.05);
  EXPECT_NEAR(share_of(found, 1), 0.2, 0.05);
  EXPECT_LT(share_of(found, 2), 0.02);
  EXPECT_EQ(found.parameters[0].parameter, 0U) << "largest first";
  EXPECT_EQ(found.parameters[2].parameter, 2U);
  for (const PairShare& pair : found.pairs) EXPECT_LT(pair.share, 0.05) << "a sum has no interaction";
  EXPECT_GT(found.fit, 0.9);
  EXPECT_EQ(found.points, 600U);
}

// a b on the unit square has variance 1/9 - 1/16 = 7/144, of which each explains 3/144 alone.
TEST(Fanova, InteractionsAreToldFromWhatEachExplainsAlone) {
  const Fanova product =
      fanova(sampled({{}, {}, {}}, 800, 2, [](const auto& p) { return p[0] * p[1]; }), {.sample_max = 800, .seed = 3})
          .value();
  EXPECT_NEAR(share_of(product, 0), 3.0 / 7, 0.06);
  EXPECT_NEAR(share_of(product, 1), 3.0 / 7, 0.06);
  ASSERT_EQ(product.pairs.size(), 3U);
  EXPECT_EQ(product.pairs[0].first, 0U);
  EXPECT_EQ(product.pairs[0].second, 1U);
  EXPECT_NEAR(product.pairs[0].share, 1.0 / 7, 0.04);
  EXPECT_LT(product.pairs[1].share, 0.03);

  const FanovaData equal =
      sampled({{.categories = 2}, {.categories = 2}}, 200, 2, [](const auto& p) { return p[0] == p[1] ? 1.0 : 0.0; });
  const Fanova agreement = fanova(equal, {.seed = 3}).value();
  EXPECT_NEAR(agreement.pairs[0].share, 1, 0.01) << "neither alone says anything";
  EXPECT_NEAR(share_of(agreement, 0), 0, 0.01);
}

// One of four categories differs: its fraction is known, 3/16 of its height squared.
TEST(Fanova, CategoriesAreSubsetsWithoutAnOrder) {
  const FanovaData data =
      sampled({{.categories = 4}, {}}, 400, 4, [](const auto& p) { return (p[0] == 2 ? 4.0 : 0.0) + p[1]; });
  const double category = 16 * 3.0 / 16, number = 1.0 / 12;
  const Fanova found = fanova(data, {.seed = 1}).value();
  EXPECT_NEAR(share_of(found, 0), category / (category + number), 0.02);
  EXPECT_NEAR(share_of(found, 1), number / (category + number), 0.02);
}

TEST(Fanova, ASeedDecidesEverything) {
  const FanovaData data = sampled({{}, {.categories = 3}}, 80, 5, [](const auto& p) { return p[0] * p[1]; });
  const Fanova a = fanova(data, {.seed = 9}).value(), b = fanova(data, {.seed = 9}).value(),
               c = fanova(data, {.seed = 10}).value();
  EXPECT_EQ(share_of(a, 0), share_of(b, 0));
  EXPECT_EQ(a.pairs[0].share, b.pairs[0].share);
  EXPECT_NE(share_of(a, 0), share_of(c, 0));
}

TEST(Fanova, ValuesOfAnySizeGiveTheSameShares) {
  const Function f = [](const auto& p) { return 2 * p[0] + p[1]; };
  const Fanova a = fanova(sampled({{}, {}}, 100, 6, f)).value();
  const Fanova b = fanova(sampled({{}, {}}, 100, 6, [&](const auto& p) { return 1e300 * f(p) - 2e300; })).value();
  EXPECT_NEAR(share_of(a, 0), share_of(b, 0), 0.01);
}

TEST(Fanova, RefusesWhatHasNoVariance) {
  const Function constant = [](const auto&) { return 3.0; };
  EXPECT_THAT(fanova(sampled({{}}, 20, 1, constant)).error().message, HasSubstr("all values are equal"));
  EXPECT_THAT(fanova(sampled({{}}, 3, 1, constant)).error().message, HasSubstr("4 points are the least, got 3"));
  EXPECT_THAT(fanova(sampled({}, 20, 1, constant)).error().message, HasSubstr("no parameter"));
  FanovaData data = sampled({{}}, 20, 1, [](const auto& p) { return p[0]; });
  data.points[3][0] = 1.5;
  EXPECT_THAT(fanova(data).error().message, HasSubstr("outside 0 to 1"));
  data.points[3][0] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(fanova(data).has_value());
  data.points[3][0] = 0.5;
  data.values[4] = std::numeric_limits<double>::infinity();
  EXPECT_THAT(fanova(data).error().message, HasSubstr("finite"));
  data.parameters[0].categories = 65;
  EXPECT_THAT(fanova(data).error().message, HasSubstr("at most 64"));
}

}  // namespace
}  // namespace volador::tune
