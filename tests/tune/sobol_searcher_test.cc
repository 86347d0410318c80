#include "tune/searchers/sobol_searcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

TEST(Sobol, BeginsAsInTheBooks) {
  // The sequence in index order, of which the books' Gray code order is a permutation.
  const SobolSequence sequence(6, std::nullopt);
  const double expected[4][6] = {{0, 0, 0, 0, 0, 0},
                                 {0.5, 0.5, 0.5, 0.5, 0.5, 0.5},
                                 {0.25, 0.75, 0.75, 0.75, 0.25, 0.25},
                                 {0.75, 0.25, 0.25, 0.25, 0.75, 0.75}};
  for (int64_t i = 0; i < 4; ++i) {
    for (size_t d = 0; d < 6; ++d) EXPECT_EQ(sequence.coordinate(i, d), expected[i][d]) << i << " " << d;
  }
  // Points 4 and 5 in Gray code order are those with index 6 and 7.
  const double later[2][6] = {{0.375, 0.375, 0.625, 0.875, 0.375, 0.125}, {0.875, 0.875, 0.125, 0.375, 0.875, 0.625}};
  for (int64_t i = 0; i < 2; ++i) {
    for (size_t d = 0; d < 6; ++d) EXPECT_EQ(sequence.coordinate(6 + i, d), later[i][d]) << i << " " << d;
  }
}

TEST(Sobol, HasTheDirectionNumbersOfJoeAndKuoInLateDimensionsToo) {
  // Point 1000 in Gray code order.
  const SobolSequence sequence(256, std::nullopt);
  const int64_t index = 1000 ^ (1000 >> 1);
  EXPECT_NEAR(sequence.coordinate(index, 100), 0.76855469, 1e-8);
  EXPECT_NEAR(sequence.coordinate(index, 200), 0.75292969, 1e-8);
  EXPECT_NEAR(sequence.coordinate(index, 255), 0.24902344, 1e-8);
}

TEST(Sobol, PutsOnePointInEachPartWhateverTheScrambling) {
  for (const std::optional<uint64_t>& seed : {std::optional<uint64_t>(), {1}, {2}, {3}}) {
    const SobolSequence sequence(256, seed);
    for (const size_t dimension : {0u, 1u, 2u, 9u, 100u, 255u}) {
      for (const int64_t first : {0, 256, 1024}) {
        std::set<int> hit;
        for (int64_t i = first; i < first + 256; ++i)
          hit.insert(static_cast<int>(sequence.coordinate(i, dimension) * 256));
        EXPECT_EQ(hit.size(), 256u) << dimension;
      }
    }
  }
}

TEST(Sobol, PutsOnePointInEachBoxOfTheFirstTwoDimensions) {
  const SobolSequence sequence(2, 5);
  for (int bits = 0; bits <= 6; ++bits) {
    const int across = 1 << bits, down = 64 >> bits;
    std::set<std::pair<int, int>> hit;
    for (int64_t i = 0; i < 64; ++i) {
      hit.emplace(static_cast<int>(sequence.coordinate(i, 0) * across),
                  static_cast<int>(sequence.coordinate(i, 1) * down));
    }
    EXPECT_EQ(hit.size(), 64u) << across;
  }
}

TEST(SobolSearch, IntegratesMoreExactlyThanRandomPoints) {
  // The mean of x y z over the cube is 1/8.
  const Space space = {{"x", uniform(0, 1)}, {"y", uniform(0, 1)}, {"z", uniform(0, 1)}};
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const auto searcher = sobol_search()({.space = space, .num_samples = 256, .seed = seed}).value();
    double sum = 0;
    for (int64_t i = 0; i < 256; ++i) {
      const Config config = searcher->suggest(i).value().config;
      sum += config.real("x") * config.real("y") * config.real("z") / 256;
    }
    EXPECT_NEAR(sum, 0.125, 0.002);  // With random points the deviation is 0.009.
  }
}

TEST(SobolSearch, DiffersBySeedWhereItIsScrambled) {
  const auto first = [](const SobolSearchOptions& options, uint64_t seed) {
    const auto searcher =
        sobol_search(options)({.space = {{"x", uniform(0, 1)}}, .num_samples = 4, .seed = seed}).value();
    return searcher->suggest(0).value().config.real("x");
  };
  EXPECT_NE(first({}, 1), first({}, 2));
  EXPECT_EQ(first({.seed = 1}, 1), first({.seed = 1}, 2));
  EXPECT_EQ(first({.scramble = false}, 1), first({.scramble = false}, 2));
}

TEST(SobolSearch, RefusesMoreDimensionsThanItHas) {
  Space space;
  for (size_t i = 0; i < 257; ++i) space.set("p" + std::to_string(i), uniform(0, 1));
  const auto made = sobol_search()({.space = space, .num_samples = 2});
  ASSERT_FALSE(made.has_value());
  EXPECT_THAT(made.error().message, HasSubstr("sobol_search: the space has 257 dimensions, at most 256 are possible"));
}

}  // namespace
}  // namespace volador::tune
