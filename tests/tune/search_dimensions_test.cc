#include "tune/space/search_dimensions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace volador::tune {
namespace {

const Space kNested = {{"lr", loguniform(1e-4, 1e-1)},
                       {"decay", quniform(0, 1, 0.25)},
                       {"step", qloguniform(0.5, 4, 0.5)},
                       {"width", randint(8, 65)},
                       {"units", qlograndint(8, 512, 8)},
                       {"size", lograndint(1, 1000)},
                       {"noise", randn(1, 2)},
                       {"layers", list({randint(0, 3), 7, uniform(-1, 1)})},
                       {"optimizer", choice({SpaceNode{{"name", "adam"}, {"beta", uniform(0.8, 1)}},
                                             SpaceNode{{"name", "sgd"}, {"nesterov", choice({true, false})}}})},
                       {"depth", 2}};

TEST(SearchDimensions, FindsThePointOfEachConfigurationItMakes) {
  const SearchDimensions dimensions(kNested, 0);
  SeededRandom random(1);
  for (int i = 0; i < 500; ++i) {
    const Point point = dimensions.random_point(random);
    const Config config = dimensions.config({.seed = 1, .index = i}, point).value();
    const auto back = dimensions.point_of(config);
    ASSERT_TRUE(back.has_value()) << config.to_json();
    for (size_t d = 0; d < point.size(); ++d)
      ASSERT_NEAR((*back)[d], point[d], 1e-9) << dimensions[d].key << " " << config.to_json();
  }
}

TEST(SearchDimensions, SettlesToTheMiddleOfTheCellThatGivesTheValue) {
  const SearchDimensions dimensions(kNested, 0);
  SeededRandom random(2);
  for (int i = 0; i < 500; ++i) {
    Point point(dimensions.size());
    for (double& coordinate : point) coordinate = random.real();
    const Point settled = dimensions.settled(point);
    EXPECT_EQ(dimensions.settled(settled), settled);
    for (size_t d = 0; d < point.size(); ++d) {
      if (dimensions[d].cells == 0 || settled[d] == kInactive) continue;
      const auto cell = dimensions.cell(d, dimensions.cell_of(d, point[d]));
      EXPECT_GE(point[d], cell.low - 1e-12) << dimensions[d].key;
      EXPECT_LE(point[d], cell.high + 1e-12) << dimensions[d].key;
      EXPECT_TRUE(settled[d] >= cell.low && settled[d] <= cell.high) << dimensions[d].key;
    }
  }
}

TEST(SearchDimensions, MakesEveryValueOfItsCells) {
  const Space space = {{"q", quniform(0.1, 0.5, 0.1)}, {"i", qrandint(-4, 9, 3)},    {"r", randint(-2, 3)},
                       {"l", lograndint(2, 9)},        {"m", qlograndint(3, 30, 3)}, {"x", qloguniform(1, 3, 0.5)}};
  const SearchDimensions dimensions(space, 0);
  const size_t cells[] = {5, 5, 5, 7, 10, 5};
  for (size_t d = 0; d < dimensions.size(); ++d) {
    ASSERT_EQ(dimensions[d].cells, cells[d]) << dimensions[d].key;
    std::set<double> values;
    for (uint64_t index = 0; index < cells[d]; ++index) {
      Point point(dimensions.size(), 0.5);
      point[d] = dimensions.middle(d, index);
      values.insert(dimensions.config({}, dimensions.settled(point)).value().real(dimensions[d].key));
    }
    EXPECT_EQ(values.size(), cells[d]) << dimensions[d].key;
  }
}

TEST(SearchDimensions, MarksWhatIsBelowOtherOptionsAsInactive) {
  const SearchDimensions dimensions(kNested, 0);
  SeededRandom random(3);
  for (int i = 0; i < 50; ++i) {
    const Point point = dimensions.random_point(random);
    const Config config = dimensions.config({}, point).value();
    for (size_t d = 0; d < point.size(); ++d) {
      if (dimensions[d].key == "optimizer#0.beta") {
        EXPECT_EQ(point[d] != kInactive, config.text("optimizer.name") == "adam");
      }
      if (dimensions[d].key == "optimizer#1.nesterov") {
        EXPECT_EQ(point[d] != kInactive, config.text("optimizer.name") == "sgd");
      }
    }
  }
}

TEST(SearchDimensions, NumbersEveryPointOfADiscreteSpaceOnce) {
  const Space space = {{"a", randint(0, 3)},
                       {"b", choice({SpaceNode("plain"), SpaceNode{{"x", randint(0, 4)}, {"y", choice({1, 2})}},
                                     SpaceNode{{"z", quniform(0, 1, 0.5)}}})},
                       {"c", choice({"u", "v"})}};
  const SearchDimensions dimensions(space, 0);
  ASSERT_EQ(dimensions.count(), 3u * (1 + 4 * 2 + 3) * 2);
  std::set<std::string> configs;
  for (uint64_t number = 0; number < *dimensions.count(); ++number) {
    const Point point = dimensions.numbered(number);
    EXPECT_EQ(dimensions.settled(point), point);
    EXPECT_EQ(dimensions.number(point), number);
    configs.insert(dimensions.config({}, point).value().to_json());
  }
  EXPECT_EQ(configs.size(), *dimensions.count());
}

TEST(SearchDimensions, CountsNoContinuumAndNothingTooLarge) {
  EXPECT_EQ(SearchDimensions({{"a", uniform(0, 1)}, {"b", randint(0, 3)}}, 0).count(), std::nullopt);
  const int64_t all = int64_t{1} << 40;
  const SearchDimensions large({{"a", randint(0, all)}, {"b", randint(0, all)}}, 0);
  EXPECT_TRUE(large.is_discrete());
  EXPECT_EQ(large.count(), std::nullopt);
  EXPECT_EQ(SearchDimensions({{"a", 3}}, 0).count(), 1u);
}

TEST(SearchDimensions, HasOnlyWhatItsPointOfTheGridDraws) {
  const Space space = {{"g", grid_search({SpaceNode{{"x", uniform(0, 1)}}, SpaceNode{{"y", randint(0, 3)}}})},
                       {"h", grid_search({1, 2})}};
  const SearchDimensions first(space, 0);
  const SearchDimensions last(space, 3);
  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(first[0].key, "g#0.x");
  EXPECT_EQ(last[0].key, "g#1.y");
  const Config config = last.config({}, {last.middle(0, 2)}).value();
  EXPECT_EQ(config.to_json(), R"({"g":{"y":2},"h":2})");
  EXPECT_EQ(last.point_of(config), Point{last.middle(0, 2)});
  EXPECT_EQ(first.point_of(config), std::nullopt);
}

TEST(SearchDimensions, FindsNoPointOfStrangeConfigurations) {
  const SearchDimensions dimensions({{"a", uniform(0, 1)}, {"b", choice({"x", "y"})}, {"c", 5}}, 0);
  const Config good = {{"a", 0.5}, {"b", "y"}, {"c", 5}};
  ASSERT_TRUE(dimensions.point_of(good).has_value());
  for (const auto& [path, value] : {std::pair<const char*, Config>{"a", 2.0}, {"a", "x"}, {"b", "z"}, {"c", 6}}) {
    Config bad = good;
    bad.set(path, value);
    EXPECT_FALSE(dimensions.point_of(bad).has_value()) << bad.to_json();
  }
  EXPECT_FALSE(dimensions.point_of({{"a", 0.5}}).has_value());
}

TEST(SearchDimensions, TakesNamesWithTheSignOfOptions) {
  const SearchDimensions dimensions({{"a#0", uniform(0, 1)}, {"a", choice({1, 2})}}, 0);
  ASSERT_EQ(dimensions.size(), 2u);
  EXPECT_EQ(dimensions.config({}, {0.25, 0.25}).value().real("a#0"), 0.25);
}

TEST(SearchDimensions, KeepsPointsAsText) {
  const SearchDimensions dimensions(kNested, 0);
  SeededRandom random(4);
  const Point point = dimensions.random_point(random);
  const std::string text = SearchDimensions::to_text(point);
  EXPECT_EQ(dimensions.from_text(text), point);
  EXPECT_EQ(dimensions.from_text(text.substr(1)), std::nullopt);
  EXPECT_EQ(dimensions.from_text("x" + text.substr(1)), std::nullopt);
  EXPECT_EQ(dimensions.from_text(std::string(text.size(), 'f')), std::nullopt);  // NaN.
}

TEST(NormalQuantile, UndoesTheDistribution) {
  for (const double z : {-8.0, -3.0, -1.5, -0.1, 0.0, 1e-9, 0.7, 2.3, 5.0})
    EXPECT_NEAR(normal_quantile(std::erfc(-z / std::sqrt(2.0)) / 2), z, 1e-9 * std::max(1.0, std::abs(z))) << z;
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-13);
}

}  // namespace
}  // namespace volador::tune
