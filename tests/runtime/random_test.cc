#include "runtime/random.h"

#include <gtest/gtest.h>

#include <vector>

namespace volador {
namespace {

TEST(SeededRandom, OneSeedGivesOneStream) {
  SeededRandom a(7), b(7), c(8);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const uint64_t value = a.next();
    EXPECT_EQ(value, b.next());
    differs = differs || value != c.next();
  }
  EXPECT_TRUE(differs);
}

TEST(Random, RealsLieInTheUnitInterval) {
  SeededRandom random(1);
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double value = random.real();
    EXPECT_GE(value, 0);
    EXPECT_LT(value, 1);
    sum += value;
  }
  EXPECT_NEAR(sum / 10'000, 0.5, 0.02);
}

TEST(Random, BelowReachesEveryValueAndNoOther) {
  SeededRandom random(3);
  std::vector<int> counts(7);
  for (int i = 0; i < 7'000; ++i) ++counts.at(random.below(7));
  for (int count : counts) EXPECT_NEAR(count, 1000, 200);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(random.below(1), 0u);
}

TEST(SystemRandom, DoesNotRepeatItself) {
  SystemRandom random;
  EXPECT_NE(random.next(), random.next());
}

}  // namespace
}  // namespace volador
