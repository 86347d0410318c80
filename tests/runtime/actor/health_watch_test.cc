#include "runtime/actor/health_watch.h"

#include <gtest/gtest.h>

namespace volador {
namespace {

using namespace std::chrono_literals;

constexpr BootTime kAlive{1000s};

HealthWatch make(int failures = 1, std::chrono::nanoseconds turn = 0s) {
  return HealthWatch(
      {.method = "Store::alive", .period = 10s, .timeout = 5s, .turn_timeout = turn, .failures = failures}, kAlive);
}
Result<void> wrong(const char* how) { return make_error(ErrorCode::kApplication, how); }

TEST(HealthWatch, ChecksComeAPeriodAfterTheEndOfTheOneBefore) {
  HealthWatch watch = make();
  EXPECT_EQ(watch.next(), kAlive + 10s);
  EXPECT_FALSE(watch.on_time(kAlive + 9s).run) << "early";
  EXPECT_TRUE(watch.on_time(kAlive + 10s).run);
  EXPECT_FALSE(watch.on_time(kAlive + 10s).run) << "once";
  watch.on_started(kAlive + 11s);
  EXPECT_FALSE(watch.on_ended(kAlive + 14s, {}).unhealthy);
  EXPECT_EQ(watch.next(), kAlive + 24s);
}

TEST(HealthWatch, OneThatHangsEndsTheActorAtOnce) {
  HealthWatch watch = make(3);
  watch.on_time(kAlive + 10s);
  EXPECT_EQ(watch.next(), std::nullopt) << "it may wait for its turn as long as the calls before it take";
  watch.on_started(kAlive + 100s);
  EXPECT_EQ(watch.next(), kAlive + 105s);
  EXPECT_FALSE(watch.on_time(kAlive + 104s).unhealthy);
  EXPECT_EQ(watch.on_time(kAlive + 105s).unhealthy, "health check Store::alive did not return within 5 s");
  EXPECT_EQ(watch.next(), std::nullopt);
  EXPECT_FALSE(watch.on_ended(kAlive + 106s, {}).unhealthy) << "what it says late changes nothing";
  EXPECT_FALSE(watch.on_time(kAlive + 200s).run);
}

TEST(HealthWatch, OnlyFailuresInARowCount) {
  HealthWatch watch = make(2);
  BootTime now = kAlive;
  const auto round = [&](const Result<void>& how) {
    now += 10s;
    EXPECT_TRUE(watch.on_time(now).run);
    watch.on_started(now);
    return watch.on_ended(now, how).unhealthy;
  };
  EXPECT_FALSE(round(wrong("returned false")));
  EXPECT_FALSE(round({}));
  EXPECT_FALSE(round(wrong("returned false")));
  EXPECT_EQ(round(wrong("threw std::runtime_error: no disk")),
            "health check Store::alive threw std::runtime_error: no disk, 2 times in a row");
}

TEST(HealthWatch, OneThatGetsNoTurnEndsTheActorWhereThatWasAskedFor) {
  HealthWatch watch = make(1, 60s);
  watch.on_time(kAlive + 10s);
  EXPECT_EQ(watch.next(), kAlive + 70s);
  EXPECT_EQ(watch.on_time(kAlive + 70s).unhealthy,
            "health check Store::alive got no turn within 60 s behind other calls");
}

TEST(HealthWatch, TimeInWhichTheProcessStoodStillOrWasParkedDoesNotCount) {
  HealthWatch watch = make();
  watch.on_time(kAlive + 10s);
  watch.on_started(kAlive + 10s);
  EXPECT_FALSE(watch.on_time(kAlive + 300s).unhealthy) << "it was stopped: its timer came five minutes late";
  EXPECT_EQ(watch.next(), kAlive + 305s);
  EXPECT_FALSE(watch.on_time(kAlive + 305s, true).unhealthy) << "it waits for a lease";
  EXPECT_TRUE(watch.on_time(kAlive + 310s).unhealthy);
}

}  // namespace
}  // namespace volador
