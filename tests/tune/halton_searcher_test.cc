#include "tune/searchers/halton_searcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tune/searchers/variant_searcher.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

std::vector<Config> draws(const SearcherFactory& factory, const Space& space, int64_t count) {
  const auto searcher = factory({.space = space, .num_samples = count, .seed = 12}).value();
  std::vector<Config> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(searcher->suggest(i).value().config);
  return out;
}

// Number of empty parts among `cells` equal parts of [0, 1).
int empty_cells(const std::vector<double>& values, int cells) {
  std::set<int> hit;
  for (const double value : values) hit.insert(static_cast<int>(value * cells));
  return cells - static_cast<int>(hit.size());
}

TEST(Halton, BeginsAsInTheBooks) {
  const double in_two[] = {1.0 / 2, 1.0 / 4, 3.0 / 4, 1.0 / 8, 5.0 / 8, 3.0 / 8, 7.0 / 8, 1.0 / 16};
  const double in_three[] = {1.0 / 3, 2.0 / 3, 1.0 / 9, 4.0 / 9, 7.0 / 9, 2.0 / 9, 5.0 / 9, 8.0 / 9};
  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_DOUBLE_EQ(halton(i, 0, std::nullopt), in_two[i]) << i;
    EXPECT_DOUBLE_EQ(halton(i, 1, std::nullopt), in_three[i]) << i;
  }
  EXPECT_DOUBLE_EQ(halton(0, 2, std::nullopt), 0.2);
  EXPECT_DOUBLE_EQ(halton(0, 999, std::nullopt), 1.0 / 7919);  // The thousandth prime.
}

TEST(Halton, PutsOnePointInEachPartWhateverTheScrambling) {
  for (const uint64_t seed : {1u, 2u, 3u}) {
    for (const auto& [dimension, base] : {std::pair{0, 2}, {1, 3}, {2, 5}, {30, 127}}) {
      // base^2 consecutive points, starting at a multiple of it: one in each part. The sequence begins with index 1.
      const int64_t parts = int64_t{base} * base;
      std::vector<double> values;
      for (int64_t i = 0; i < parts; ++i)
        values.push_back(halton(parts * 3 - 1 + i, static_cast<size_t>(dimension), seed));
      for (double& value : values) value = std::nextafter(value, 1);  // Rounding may put it on an edge.
      EXPECT_EQ(empty_cells(values, static_cast<int>(parts)), 0) << "base " << base;
      EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](double u) { return u >= 0 && u < 1; }));
    }
  }
}

TEST(Halton, ScramblesTheStripesOfLargeBasesAway) {
  // In bases 127 and 131 the first hundred plain points lie on a diagonal.
  const auto correlation = [](const std::optional<uint64_t>& seed) {
    double xy = 0, xx = 0, yy = 0;
    for (int64_t i = 0; i < 100; ++i) {
      const double x = halton(i, 30, seed) - 0.5;
      const double y = halton(i, 31, seed) - 0.5;
      xy += x * y;
      xx += x * x;
      yy += y * y;
    }
    return xy / std::sqrt(xx * yy);
  };
  EXPECT_GT(correlation(std::nullopt), 0.9);
  EXPECT_LT(std::abs(correlation(7)), 0.5);
}

TEST(HaltonSearch, FillsTheSpaceMoreEvenlyThanRandomSearch) {
  const Space space = {{"lr", loguniform(1e-4, 1)},
                       {"width", randint(0, 16)},
                       {"kind", choice({"a", "b", "c"})},
                       {"noise", randn(0, 1)}};
  const auto spread = [&](const SearcherFactory& factory) {
    std::vector<double> rates;
    std::map<int64_t, int> widths;
    std::map<std::string, int> kinds;
    double sum = 0;
    for (const Config& config : draws(factory, space, 144)) {
      rates.push_back(std::log10(config.real("lr")) / 4 + 1);
      ++widths[config.integer("width")];
      ++kinds[config.text("kind")];
      sum += config.real("noise");
    }
    const auto least = std::min_element(widths.begin(), widths.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
    return std::tuple(empty_cells(rates, 64), static_cast<int>(widths.size()) == 16 ? least->second : 0, kinds["a"],
                      std::abs(sum / 144));
  };
  const auto [gaps, fewest, a, mean] = spread(halton_search());
  EXPECT_EQ(gaps, 0);
  EXPECT_GE(fewest, 7);  // Nine each on average.
  EXPECT_NEAR(a, 48, 2);
  EXPECT_LT(mean, 0.1);
  EXPECT_GT(std::get<0>(spread(random_search())), 0);
}

TEST(HaltonSearch, DrawsWhatAnOptionOfAChoiceHolds) {
  const Space space = {
      {"optimizer", choice({SpaceNode{{"name", "adam"}, {"beta", uniform(0, 1)}},
                            SpaceNode{{"name", "sgd"}, {"momentum", uniform(0, 1)}}})},
      {"twice", sample_from([](const Config& config) { return config.text("optimizer.name") + "!"; })}};
  int adam = 0;
  for (const Config& config : draws(halton_search(), space, 64)) {
    const bool is_adam = config.text("optimizer.name") == "adam";
    adam += is_adam;
    EXPECT_EQ(config.contains("optimizer.beta"), is_adam);
    EXPECT_EQ(config.text("twice"), is_adam ? "adam!" : "sgd!");
  }
  EXPECT_NEAR(adam, 32, 1);
}

TEST(HaltonSearch, KeepsItsConfigurationsByTheSeed) {
  const Space space = {{"x", uniform(0, 1)}};
  EXPECT_EQ(draws(halton_search({.seed = 1}), space, 5), draws(halton_search({.seed = 1}), space, 5));
  EXPECT_NE(draws(halton_search({.seed = 1}), space, 5), draws(halton_search({.seed = 2}), space, 5));
  EXPECT_EQ(draws(halton_search({.scramble = false}), space, 1)[0].real("x"), 0.5);
}

TEST(HaltonSearch, NamesWhatCannotBe) {
  Space large;
  for (int i = 0; i < 1001; ++i) large.set("p" + std::to_string(i), uniform(0, 1));
  const auto made = halton_search()({.space = large});
  ASSERT_FALSE(made.has_value());
  EXPECT_THAT(made.error().message,
              HasSubstr("halton_search: the space has 1001 dimensions, at most 1000 are possible"));
  EXPECT_THAT(halton_search()({.space = {{"x", uniform(1, 0)}}}).error().message, HasSubstr("space.x"));
}

}  // namespace
}  // namespace volador::tune
