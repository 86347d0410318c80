#include "tune/plots/scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/tune/odd_values.h"

namespace volador::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Extent extent(std::initializer_list<double> values, bool log = false) {
  Extent out;
  for (const double value : values) out.add(value, log);
  return out;
}
std::vector<std::string> labels(const Scale& scale, int about, Unit unit = Unit::kNumber) {
  std::vector<std::string> out;
  for (const AxisTick& tick : scale.ticks(about, unit)) {
    if (!tick.label.empty()) out.push_back(tick.label);
  }
  return out;
}

TEST(Scale, MarksStandAtRoundValues) {
  EXPECT_THAT(labels(Scale(extent({0.03, 0.97}), false, 0, 100), 5), ElementsAre("0.2", "0.4", "0.6", "0.8"));
  EXPECT_THAT(labels(Scale(extent({1, 4}), false, 0, 100), 10, Unit::kCount), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(labels(Scale(extent({0, 45000}), false, 0, 100), 4), ElementsAre("0", "20k", "40k"));
  EXPECT_THAT(labels(Scale(extent({0, 300}), false, 0, 100), 5, Unit::kSeconds),
              ElementsAre("0", "60 s", "2 min", "3 min", "4 min", "5 min"));
  EXPECT_THAT(labels(Scale(extent({-1, 1}), false, 0, 100), 4), ElementsAre("-1", "-0.5", "0", "0.5", "1"));
}

TEST(Scale, LogarithmicMarksArePowersOfTenAndWhatFitsBetween) {
  EXPECT_THAT(labels(Scale(extent({1e-5, 1e-1}, true), true, 0, 100), 5),
              ElementsAre("1e-05", "0.0001", "0.001", "0.01", "0.1"));
  EXPECT_THAT(labels(Scale(extent({1e-2, 1}, true), true, 0, 100), 6),
              ElementsAre("0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1"));
  EXPECT_THAT(labels(Scale(extent({1e-20, 1e20}, true), true, 0, 100), 4),
              ElementsAre("1e-20", "1e-10", "1", "1e+10", "1e+20"));
  EXPECT_THAT(labels(Scale(extent({20, 40}, true), true, 0, 100), 4), ElementsAre("20", "25", "30", "35", "40"));
}

TEST(Scale, PlacesValues) {
  const Scale linear(extent({0, 10}), false, 100, 0);
  EXPECT_DOUBLE_EQ(linear.at(2.5), 75);
  EXPECT_TRUE(std::isnan(linear.at(kNan)));
  const Scale log(extent({1, 100}, true), true, 0, 200);
  EXPECT_DOUBLE_EQ(log.at(10), 100);
  EXPECT_TRUE(std::isnan(log.at(0)));
  EXPECT_TRUE(std::isnan(log.at(-3)));
}

TEST(Scale, StandsWhateverTheValuesAre) {
  for (const bool log : {false, true}) {
    for (const auto& values : {std::initializer_list<double>{},
                               {7.0},
                               {0.0},
                               {kNan, kInfinity},
                               {-1e308, 1e308},
                               {5e-324, 1e308},
                               {1e300, 1.0000001e300},
                               {-5.0, -5.0}}) {
      const Scale scale(extent(values, log), log, 0, 100, 0.05);
      EXPECT_LT(scale.lo(), scale.hi());
      EXPECT_LE(scale.ticks(6).size(), 100U);
      for (const AxisTick& tick : scale.ticks(6)) EXPECT_TRUE(std::isfinite(tick.value));
    }
  }
  Extent none;
  none.add(-1, true);
  EXPECT_TRUE(none.empty);
}

TEST(Scale, ValuesHaveFourDigits) {
  EXPECT_EQ(value_text(0.98765432), "0.9877");
  EXPECT_EQ(value_text(1.5e6), "1.5M");
  EXPECT_EQ(value_text(kNan), "nan");
  EXPECT_EQ(value_text(0.25, Unit::kSeconds), "250 ms");
  EXPECT_EQ(value_text(5400, Unit::kSeconds), "90 min");
  EXPECT_EQ(value_text(86400 * 3, Unit::kSeconds), "3 d");
}

}  // namespace
}  // namespace volador::tune
