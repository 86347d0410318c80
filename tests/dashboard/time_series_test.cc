#include "dashboard/time_series.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace volador::dashboard {
namespace {

constexpr int64_t kBegin = 1'795'000'200;  // A multiple of 300.

TEST(TimeSeries, ValuesOfOneStepBecomeLeastMeanAndGreatest) {
  TimeSeries series;
  for (const float value : {1.0F, 4.0F, 7.0F}) series.add(kBegin * 1000 + static_cast<int64_t>(value), value);
  const auto steps = series.read(kBegin, kBegin + 1, 10);
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].min, 1);
  EXPECT_EQ(steps[0].mean, 4);
  EXPECT_EQ(steps[0].max, 7);
}

TEST(TimeSeries, WhatTheFinestLevelForgotIsReadFromCoarserOnes) {
  TimeSeries series;
  for (int64_t second = 0; second < 2 * 3600; ++second)
    series.add((kBegin + second) * 1000, static_cast<float>(second));
  EXPECT_EQ(series.read(kBegin + 3600, kBegin + 7200, 10'000).size(), 3600U);  // 1 s.
  const auto day = series.read(kBegin, kBegin + 7200, 10'000);                 // 10 s.
  ASSERT_EQ(day.size(), 720U);
  EXPECT_EQ(day[0].min, 0);
  EXPECT_EQ(day[0].max, 9);
  EXPECT_FLOAT_EQ(day[0].mean, 4.5);
}

TEST(TimeSeries, ACoarserLevelBeginsWithWhatTheFinerOneStillHas) {
  TimeSeries series;
  constexpr TimeSeries::Room kLittle{600, 60, 100};
  for (int64_t second = 0; second < 3000; ++second) {
    series.add((kBegin + second) * 1000, static_cast<float>(second % 7), kLittle);
    const auto all = series.read(kBegin, kBegin + second + 1, 10'000);
    float greatest = 0;
    int64_t last = kBegin - 1;
    for (const SeriesStep& step : all) {
      ASSERT_GT(step.seconds, last);
      last = step.seconds;
      greatest = std::max(greatest, step.max);
    }
    ASSERT_EQ(all.front().seconds, kBegin) << second;
    ASSERT_EQ(greatest, std::min<float>(6, static_cast<float>(second))) << second;
  }
  EXPECT_EQ(series.read(kBegin, kBegin + 3000, 10'000).size(), 10U);  // 5 min.
  EXPECT_EQ(series.read(kBegin + 2400, kBegin + 3000, 10'000).size(), 600U);
  EXPECT_NEAR(series.read(kBegin, kBegin + 300, 10'000)[0].mean, 3, 0.05);
}

TEST(TimeSeries, TwoDaysAreThereAtFiveMinutes) {
  TimeSeries series;
  for (int64_t second = 0; second < 2 * 86'400; second += 10) series.add((kBegin + second) * 1000, 1);
  EXPECT_EQ(series.read(kBegin, kBegin + 2 * 86'400, 10'000).size(), 576U);
}

TEST(TimeSeries, AnswersAreJoinedToAsManyStepsAsAskedAndKeepTheirExtremes) {
  TimeSeries series;
  for (int64_t second = 0; second < 1000; ++second) series.add((kBegin + second) * 1000, second == 777 ? 50.0F : 1.0F);
  const auto steps = series.read(kBegin, kBegin + 1000, 10);
  ASSERT_EQ(steps.size(), 10U);
  EXPECT_EQ(steps[7].max, 50);
  EXPECT_EQ(steps[7].min, 1);
}

TEST(TimeSeries, MemoryIsBounded) {
  TimeSeries series;
  for (int64_t second = 0; second < 40 * 86'400; second += 7) series.add((kBegin + second) * 1000, 1);
  EXPECT_LE(series.bytes(), size_t{700'000});
}

TEST(TimeSeries, WhatIsMeasuredEveryTenSecondsKeepsNoFinerLevel) {
  TimeSeries series(1);
  for (int64_t second = 0; second < 3600; second += 10)
    series.add((kBegin + second) * 1000, static_cast<float>(second));
  EXPECT_LE(series.bytes(), size_t{512 + 16 * (360 + 12)});
  const auto steps = series.read(kBegin, kBegin + 3600, 10'000);
  ASSERT_EQ(steps.size(), 360U);
  EXPECT_EQ(steps[1].mean, 10);
  EXPECT_EQ(series.newest_s(), kBegin + 3590);
}

TEST(SeriesStore, TheSeriesThatWasIdleForLongestMakesRoom) {
  SeriesStore store(size_t{1} << 30, 100);
  for (size_t n = 0; n < 100; ++n)
    store.add("node/s" + std::to_string(n), "cpus", (kBegin + static_cast<int64_t>(n)) * 1000, 1);
  store.add("node/new", "cpus", (kBegin + 100'000) * 1000, 1);
  EXPECT_EQ(store.size(), 100U);
  EXPECT_EQ(store.find("node/s0", "cpus"), nullptr);
  EXPECT_NE(store.find("node/new", "cpus"), nullptr);
}

TEST(SeriesStore, MeasuresOfOneThingLieTogetherByName) {
  SeriesStore store;
  for (const char* measure : {"memory_bytes", "calls_per_s", "cpu_cores"})
    store.add("actor/a", measure, kBegin * 1000, 1, 1);
  store.add("actor/b", "cpu_cores", kBegin * 1000, 1, 1);
  ASSERT_EQ(store.all().size(), 2U);
  const auto& measures = store.all().at("actor/a");
  ASSERT_EQ(measures.size(), 3U);
  EXPECT_EQ(*measures[0].name, "calls_per_s");
  EXPECT_EQ(*measures[1].name, "cpu_cores");
  EXPECT_EQ(*measures[2].name, "memory_bytes");
  EXPECT_EQ(measures[1].name, store.all().at("actor/b")[0].name);
  EXPECT_EQ(store.size(), 4U);
  EXPECT_EQ(store.find("actor/a", "cpu"), nullptr);
  EXPECT_EQ(store.find("actor/c", "cpu_cores"), nullptr);
}

TEST(SeriesStore, WhatWasMeasuredOfOneCanBeAnothers) {
  SeriesStore store;
  const auto means = [&](const char* of) {
    std::vector<float> found;
    const TimeSeries* series = store.find(of, "cpu_cores");
    if (series == nullptr) return found;
    for (const SeriesStep& step : series->read(kBegin, kBegin + 1000, 100)) found.push_back(step.mean);
    return found;
  };
  store.add("actor/a", "cpu_cores", kBegin * 1000, 1, 1);
  store.move("actor/a", "trial/t");
  store.add("trial/t", "cpu_cores", (kBegin + 10) * 1000, 2, 1);
  EXPECT_EQ(means("actor/a"), std::vector<float>());
  EXPECT_EQ(means("trial/t"), (std::vector<float>{1, 2}));
  store.add("actor/b", "cpu_cores", (kBegin + 20) * 1000, 3, 1);
  store.add("actor/b", "memory_bytes", (kBegin + 20) * 1000, 7, 1);
  store.move("actor/b", "trial/t");
  store.move("actor/b", "trial/t");
  EXPECT_EQ(means("trial/t"), (std::vector<float>{1, 2, 3}));
  EXPECT_NE(store.find("trial/t", "memory_bytes"), nullptr);
  EXPECT_EQ(store.all().size(), 1U);
  EXPECT_EQ(store.size(), 2U);
  SeriesStore same;
  for (int at = 0; at < 3; ++at) same.add("trial/t", "cpu_cores", (kBegin + 10 * at) * 1000, static_cast<float>(at), 1);
  same.add("trial/t", "memory_bytes", (kBegin + 20) * 1000, 7, 1);
  EXPECT_EQ(store.bytes(), same.bytes());
}

// An ended series stays readable, takes less memory, and continues when it is measured again.
TEST(SeriesStore, ASeriesThatRestsTakesLess) {
  SeriesStore store;
  for (int64_t step = 0; step < 50; ++step)
    store.add("actor/a", "cpu_cores", (kBegin + 10 * step) * 1000, static_cast<float>(step % 7), 1);
  const size_t before = store.bytes();
  for (int64_t step = 50; step < 70; ++step) store.add("actor/b", "cpu_cores", (kBegin + 10 * step) * 1000, 1, 1);
  SeriesStore other;
  for (int64_t step = 50; step < 70; ++step) other.add("actor/b", "cpu_cores", (kBegin + 10 * step) * 1000, 1, 1);
  EXPECT_LT(store.bytes(), before + other.bytes() - 50);
  store.add("actor/a", "cpu_cores", (kBegin + 10 * 70) * 1000, 3, 1);
  const auto steps = store.find("actor/a", "cpu_cores")->read(kBegin, kBegin + 800, 1000);
  ASSERT_EQ(steps.size(), 51U);
  for (size_t at = 0; at < 50; ++at) {
    EXPECT_EQ(steps[at].seconds, kBegin + 10 * static_cast<int64_t>(at));
    EXPECT_EQ(steps[at].mean, static_cast<float>(at % 7));
  }
  EXPECT_EQ(steps[50].mean, 3);
}

// 20 series of an hour at 1 s are 0.2 MB.
TEST(SeriesStore, BeyondItsBytesTheFinestStepsGoFirst) {
  SeriesStore store(120'000);
  for (int64_t second = 0; second < 3600; ++second) {
    for (int n = 0; n < 20; ++n)
      store.add("node/s" + std::to_string(n), "cpus", (kBegin + second) * 1000, static_cast<float>(second));
    ASSERT_LE(store.bytes(), 120'000U);
  }
  EXPECT_LT(store.room()[0], TimeSeries::kFullRoom[0]);
  EXPECT_EQ(store.room()[1], TimeSeries::kFullRoom[1]);
  EXPECT_EQ(store.find("node/s7", "cpus")->read(kBegin, kBegin + 3600, 10'000).size(), 360U);  // The hour, at 10 s.
  EXPECT_EQ(store.find("node/s7", "cpus")->read(kBegin + 3540, kBegin + 3600, 10'000).size(),
            60U);  // Its last minute, at 1 s.
}

TEST(SeriesStore, AStoreThatIsTooSmallForItsLeastKeepsSomeSeries) {
  SeriesStore store(20'000);
  for (int64_t second = 0; second < 7200; ++second) {
    for (int n = 0; n < 20; ++n) store.add("node/s" + std::to_string(n), "cpus", (kBegin + second) * 1000, 1);
    ASSERT_LE(store.bytes(), 20'000U);
  }
  EXPECT_GE(store.size(), 1U);
}

}  // namespace
}  // namespace volador::dashboard
