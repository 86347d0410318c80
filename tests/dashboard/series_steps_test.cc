#include "dashboard/series_steps.h"

#include <gtest/gtest.h>

#include <deque>
#include <limits>

#include "runtime/random.h"
#include "tests/how_many.h"

namespace volador::dashboard {
namespace {

constexpr int64_t kFirst = 1'795'000'200;

SeriesStep flat(int64_t seconds, float value) {
  return {.seconds = seconds, .min = value, .mean = value, .max = value};
}
bool same(const SeriesStep& a, const SeriesStep& b) {
  return a.seconds == b.seconds && a.min == b.min && a.mean == b.mean && a.max == b.max;
}

TEST(SeriesSteps, AStepOfOneValueTakesTwoBytesAndALittle) {
  SeriesSteps steps(1);
  for (int64_t second = 0; second < 3600; ++second) steps.push(flat(kFirst + second, static_cast<float>(second)));
  EXPECT_LE(steps.bytes(), size_t{3600 * 3});
  const auto found = steps.read(kFirst + 100, kFirst + 103);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_TRUE(same(found[2], flat(kFirst + 102, 102)));
}

TEST(SeriesSteps, TheNewestCanChangeUntilTheNextOne) {
  SeriesSteps steps(10);
  steps.push(flat(kFirst, 1));
  steps.newest().max = 5;
  steps.push(flat(kFirst + 10, 2));
  const auto found = steps.read(kFirst, kFirst + 20);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].max, 5);
  EXPECT_EQ(found[0].min, 1);
  EXPECT_EQ(steps.oldest_s(), kFirst);
  EXPECT_EQ(steps.newest_s(), kFirst + 10);
}

// Compares with a plain list that keeps every step.
TEST(SeriesSteps, KeepsWhatAPlainListKeeps) {
  constexpr uint64_t kSeed = 5;
  SeededRandom random(kSeed);
  for (int round = 0; round < how_many(200, 20); ++round) {
    const int64_t step_s = random.below(2) == 0 ? 1 : 300;
    SeriesSteps steps(step_s);
    std::deque<SeriesStep> plain;
    int64_t now = kFirst;
    for (uint64_t n = random.below(1000); n > 0; --n) {
      now += step_s * static_cast<int64_t>(random.below(10) == 0 ? 1 + random.below(500) : 1 + random.below(3));
      SeriesStep step = flat(now, static_cast<float>(random.below(100)));
      if (random.below(20) == 0) step.max += 1, step.min -= 1;
      steps.push(step);
      plain.push_back(step);
      if (random.below(50) != 0) continue;
      const size_t kept = 1 + random.below(plain.size());
      steps.keep(kept);
      while (plain.size() > kept) plain.pop_front();
    }
    ASSERT_EQ(steps.size(), plain.size()) << "seed " << kSeed << ", round " << round;
    if (plain.empty()) continue;
    EXPECT_EQ(steps.oldest_s(), plain.front().seconds);
    const int64_t from = plain.front().seconds + step_s * static_cast<int64_t>(random.below(200)),
                  to = now - step_s * static_cast<int64_t>(random.below(3));
    std::erase_if(plain, [&](const SeriesStep& step) { return step.seconds < from || step.seconds >= to; });
    const auto found = steps.read(from, to);
    ASSERT_TRUE(std::equal(found.begin(), found.end(), plain.begin(), plain.end(), same))
        << "seed " << kSeed << ", round " << round;
  }
}

TEST(SeriesSteps, StepsThatComeUnevenlyTakeLittleMore) {
  SeriesSteps steps(1);
  int64_t now = kFirst;
  for (int n = 0; n < 2400; ++n) steps.push(flat(now += 1 + n % 2, 1));
  EXPECT_LE(steps.bytes(), size_t{2400 * 8});
}

TEST(SeriesSteps, WhatDoesNotChangeTakesNextToNothing) {
  SeriesSteps steps(1);
  for (int64_t second = 0; second < 3600; ++second) steps.push(flat(kFirst + second, 0.3F));
  EXPECT_LE(steps.bytes(), size_t{3600});
  for (const SeriesStep& step : steps.read(kFirst, kFirst + 3600)) ASSERT_EQ(step.mean, 0.3F);
}

TEST(SeriesSteps, AnyNumbersAreAsGoodAsARunsRangeAllows) {
  SeededRandom random(7);
  for (const float scale : {1e-20F, 0.1F, 3e9F, 1e37F}) {
    SeriesSteps steps(1);
    std::vector<float> values;
    for (int64_t second = 0; second < 640; ++second) {
      values.push_back(scale * (static_cast<float>(random.below(2'000'001)) / 1e6F - 1));
      steps.push(flat(kFirst + second, values.back()));
    }
    const auto found = steps.read(kFirst, kFirst + 640);
    ASSERT_EQ(found.size(), values.size());
    for (size_t at = 0; at < values.size(); ++at) ASSERT_NEAR(found[at].mean, values[at], 2 * scale / 60'000) << scale;
  }
}

TEST(SeriesSteps, InfinitiesAreGreatNumbers) {
  SeriesSteps steps(1);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (int64_t second = 0; second < 200; ++second)
    steps.push(flat(kFirst + second, second % 2 == 0 ? kInfinity : -kInfinity));
  const auto found = steps.read(kFirst, kFirst + 200);
  ASSERT_EQ(found.size(), 200U);
  EXPECT_GT(found[0].mean, 9e37F);
  EXPECT_LT(found[1].mean, -9e37F);
}

TEST(SeriesSteps, WhatIsNotKeptTakesNoRoom) {
  SeriesSteps steps(1);
  for (int64_t second = 0; second < 100'000; ++second) {
    steps.push(flat(kFirst + second, 1));
    steps.keep(60);
    ASSERT_LE(steps.bytes(), 1200U);
  }
  EXPECT_EQ(steps.read(0, kFirst + 200'000).size(), 60U);
}

}  // namespace
}  // namespace volador::dashboard
