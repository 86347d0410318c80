#include "worker/core/spare_plan.h"

#include <gtest/gtest.h>

#include <map>

#include "runtime/random.h"

namespace volador::worker {
namespace {

using namespace std::chrono_literals;

constexpr SparePlan::Program kTrainer = 1;
constexpr SparePlan::Program kOther = 2;

class SparePlanTest : public ::testing::Test {
 protected:
  HostId launch(SparePlan::Program program = kTrainer) {
    const auto host = new_id<HostId>(random_);
    plan_.on_launch(now_, program, host);
    return host;
  }
  // A host that responds at once.
  void start(SparePlan::Program program = kTrainer) {
    const HostId host = launch(program);
    plan_.on_process(now_, host);
    plan_.on_settled(now_, host);
  }
  // Follows the plan until `time` from now. Returns the numbers of created and ended hosts.
  struct Done {
    int made = 0, ended = 0;
    bool operator==(const Done&) const = default;
  };
  Done obey(std::chrono::milliseconds time) {
    Done done;
    for (const BootTime end = now_ + time; now_ < end;) {
      while (const auto order = plan_.next(now_)) {
        if (order->make) plan_.on_made(now_, order->program);
        ++(order->make ? done.made : done.ended);
        plan_.check_invariants();
      }
      now_ = std::min(end, std::max(plan_.due(now_).value_or(end), now_ + 1ms));
    }
    return done;
  }

  SeededRandom random_{5};
  BootTime now_ = BootTime{} + 1h;
  const SpareOptions options_{.most = 4};
  SparePlan plan_{options_};
};

TEST_F(SparePlanTest, NoneIsMadeWhileALaunchIsUnderWayOrHasJustBeen) {
  const HostId host = launch();
  EXPECT_EQ(obey(10s), Done{}) << "its process does not stand";
  const HostId next = launch();
  plan_.on_process(now_, host);
  plan_.on_process(now_, next);
  plan_.on_settled(now_, host);
  EXPECT_EQ(obey(options_.unsettled_max), Done{}) << "one has not answered";
  EXPECT_EQ(obey(1ms), (Done{1, 0})) << "it takes too long to wait for";
  plan_.on_settled(now_, next);
  start();
  EXPECT_EQ(obey(options_.quiet), Done{});
  EXPECT_EQ(obey(1ms), (Done{1, 0}));
}

TEST_F(SparePlanTest, AsManyAsStartedLatelyAndNoMoreThanTheNodeMayHave) {
  start();
  EXPECT_EQ(obey(1s), (Done{1, 0}));
  for (int i = 0; i < 7; ++i) start();
  EXPECT_EQ(obey(1s), (Done{3, 0}));
  start(kOther);
  EXPECT_EQ(obey(1s), Done{}) << "all are made";
  EXPECT_EQ(plan_.standing(), 4u);
}

TEST_F(SparePlanTest, OneAtATimeWithAPauseAfterEach) {
  start();
  start();
  now_ += options_.quiet;
  ASSERT_TRUE(plan_.next(now_));
  EXPECT_FALSE(plan_.next(now_ + 1s)) << "it is not there yet";
  EXPECT_FALSE(plan_.due(now_) < BootTime(now_ + 1s));
  plan_.on_made(now_, kTrainer);
  EXPECT_FALSE(plan_.next(now_ + options_.pace - 1ms));
  EXPECT_EQ(plan_.due(now_), now_ + options_.pace);
  EXPECT_TRUE(plan_.next(now_ + options_.pace));
}

TEST_F(SparePlanTest, ThatOneWasTakenCountsAsAStart) {
  EXPECT_FALSE(plan_.take(kTrainer));
  start();
  obey(9s);
  EXPECT_FALSE(plan_.take(kOther));
  start();
  EXPECT_TRUE(plan_.take(kTrainer));
  EXPECT_FALSE(plan_.take(kTrainer));
  EXPECT_EQ(obey(100ms), (Done{2, 0})) << "two started within ten seconds";
}

TEST_F(SparePlanTest, TheyEndTenSecondsAfterTheLastStartAndTheProgramIsForgotten) {
  start();
  obey(2s);
  start();
  EXPECT_EQ(obey(8s - 1ms), (Done{1, 0}));
  EXPECT_EQ(obey(2ms), (Done{0, 1})) << "the first start says nothing any more";
  EXPECT_EQ(obey(2s - 2ms), Done{});
  EXPECT_EQ(obey(2ms), (Done{0, 1}));
  EXPECT_FALSE(plan_.knows(kTrainer));
  EXPECT_FALSE(plan_.due(now_));
}

TEST_F(SparePlanTest, AfterOneThatDiedThePauseDoublesUntilOneIsTaken) {
  start();
  obey(100ms);
  plan_.on_lost(now_, kTrainer);
  EXPECT_EQ(obey(options_.backoff_min), Done{});
  EXPECT_EQ(obey(1ms), (Done{1, 0}));
  plan_.on_lost(now_, kTrainer);
  EXPECT_EQ(obey(options_.backoff_min * 2), Done{});
  EXPECT_EQ(obey(1ms), (Done{1, 0}));
  EXPECT_TRUE(plan_.take(kTrainer));
  EXPECT_EQ(obey(options_.pace + options_.quiet), (Done{1, 0}));
  plan_.on_lost(now_, kTrainer);
  EXPECT_EQ(obey(options_.backoff_min), Done{});
  EXPECT_EQ(obey(1ms), (Done{1, 0}));
}

TEST_F(SparePlanTest, WhatCannotBeMadeIsTriedAgainLater) {
  start();
  now_ += options_.quiet;
  ASSERT_TRUE(plan_.next(now_));
  plan_.on_not_made(now_, kTrainer);
  EXPECT_FALSE(plan_.next(now_ + options_.backoff_min - 1ms));
  EXPECT_EQ(plan_.due(now_), now_ + options_.backoff_min);
  EXPECT_TRUE(plan_.next(now_ + options_.backoff_min));
}

TEST_F(SparePlanTest, WhenMemoryIsShortAllEndAndNoneIsMade) {
  start();
  start();
  obey(100ms);
  plan_.hold_off(now_ + 3s);
  EXPECT_EQ(obey(3s), (Done{0, 2}));
  EXPECT_EQ(obey(100ms), (Done{2, 0}));
}

TEST_F(SparePlanTest, WithoutRoomNoneIsMade) {
  SparePlan none{SpareOptions{}};
  none.on_launch(now_, kTrainer, HostId());
  none.on_settled(now_, HostId());
  EXPECT_FALSE(none.next(now_ + 1s));
  EXPECT_FALSE(none.due(now_));
  EXPECT_FALSE(none.knows(kTrainer));
}

TEST_F(SparePlanTest, CountsHoldWhateverHappens) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SeededRandom dice(seed);
    const auto roll = [&dice](uint64_t sides) { return dice.next() % sides; };
    SparePlan plan(options_);
    std::vector<HostId> under_way;
    std::map<SparePlan::Program, size_t> standing;
    std::optional<SparePlan::Program> making;
    for (int i = 0; i < 2'000; ++i) {
      now_ += std::chrono::milliseconds(roll(roll(20) == 0 ? 5'000 : 10));
      const SparePlan::Program program = 1 + roll(3);
      switch (roll(8)) {
        case 0:
          plan.on_launch(now_, program, under_way.emplace_back(new_id<HostId>(dice)));
          break;
        case 1:
          if (!under_way.empty()) plan.on_process(now_, under_way[roll(under_way.size())]);
          break;
        case 2:
          if (under_way.empty()) break;
          plan.on_settled(now_, under_way.back());
          under_way.pop_back();
          break;
        case 3:
          ASSERT_EQ(plan.take(program), standing[program] > 0) << "seed " << seed;
          if (standing[program] > 0) --standing[program];
          break;
        case 4:
          if (standing[program] == 0) break;
          plan.on_lost(now_, program);
          --standing[program];
          break;
        case 5:
          if (!making) break;
          if (roll(2) == 0)
            plan.on_not_made(now_, *making);
          else
            plan.on_made(now_, *making), ++standing[*making];
          making.reset();
          break;
        case 6:
          if (roll(50) == 0) plan.hold_off(now_ + 1s);
          break;
        default:
          break;
      }
      while (const auto order = plan.next(now_)) {
        ASSERT_FALSE(order->make && making) << "seed " << seed;
        if (order->make)
          making = order->program;
        else
          --standing[order->program];
      }
      size_t sum = 0;
      for (const auto& [one, count] : standing) sum += count;
      ASSERT_EQ(plan.standing(), sum) << "seed " << seed;
      plan.check_invariants();
    }
  }
}

}  // namespace
}  // namespace volador::worker
