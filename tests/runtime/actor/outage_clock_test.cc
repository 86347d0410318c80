#include "runtime/actor/outage_clock.h"

#include <gtest/gtest.h>

namespace volador {
namespace {

using namespace std::chrono_literals;

BootTime at(std::chrono::nanoseconds time) { return BootTime{} + time; }

TEST(OutageClock, CountsWhatIsLostAndAWhileAfterwards) {
  OutageClock clock;
  clock.back(at(1s));  // The first head: nothing was lost.
  EXPECT_EQ(clock.total(at(10s)), 0s);
  clock.lost(at(10s));
  clock.lost(at(11s));
  EXPECT_EQ(clock.total(at(12s)), 2s);
  clock.back(at(13s));
  clock.back(at(14s));
  EXPECT_EQ(clock.total(at(15s)), 5s);
  EXPECT_EQ(clock.total(at(60s)), 3s + OutageClock::kNodesComeBack);
}

TEST(OutageClock, CountsNoTimeTwiceWhenTheHeadIsLostAgain) {
  OutageClock clock;
  clock.lost(at(10s));
  clock.back(at(11s));
  clock.lost(at(12s));
  EXPECT_EQ(clock.total(at(14s)), 4s);
  clock.back(at(20s));
  clock.lost(at(100s));
  EXPECT_EQ(clock.total(at(101s)), 10s + OutageClock::kNodesComeBack + 1s);
}

}  // namespace
}  // namespace volador
