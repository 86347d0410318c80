#include "runtime/actor/handle_holds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "runtime/light_id.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/random.h"

namespace volador {
namespace {

using From = Session::HandleFrom;
using testing::ElementsAre;
using testing::IsEmpty;

class HandleHoldsTest : public testing::Test {
 protected:
  HandleHoldsTest() {
    HandleHolds::Options options;
    options.tell = [this](const protocol::HoldActors& message, const std::string& from) {
      EXPECT_EQ(message.sequence(), ++sequence);
      const std::string by = from.empty() ? "" : " by " + from;
      if (message.all()) said.push_back("all " + std::to_string(message.held_size()));
      if (!message.all() && message.held_size() > 0) said.push_back("held" + by);
      if (message.passed_on_size() > 0) said.push_back("passed on");
      if (message.claimed_size() > 0) said.push_back("claimed");
      if (message.lent_size() > 0) said.push_back("lent");
      if (message.released_size() > 0) said.push_back("released " + std::to_string(message.released_size()) + by);
    };
    options.has_calls = [this](const ActorId& actor) { return busy.contains(actor); };
    options.leave = [this](const ActorId& actor) { left.push_back(actor); };
    options.deliver = [this](const ActorId& actor, std::function<void()> done) {
      delivered.push_back(actor);
      deliveries.push_back(std::move(done));
    };
    options.later = [this](std::function<void()> run) { timers.push_back(std::move(run)); };
    holds = std::make_shared<HandleHolds>(std::move(options));
  }
  void flush() {
    auto due = std::exchange(timers, {});
    for (auto& run : due) run();
  }
  std::vector<std::string> take() { return std::exchange(said, {}); }

  SeededRandom random{7};
  const ActorId actor = new_id<ActorId>(random);
  std::set<ActorId> busy;
  std::vector<ActorId> left;
  std::vector<ActorId> delivered;
  std::deque<std::function<void()>> deliveries;
  std::vector<std::string> said;
  std::deque<std::function<void()>> timers;
  uint64_t sequence = 0;
  std::shared_ptr<HandleHolds> holds;
};

TEST_F(HandleHoldsTest, TheHeadHearsOfTheFirstHandleAndOfTheLast) {
  auto first = holds->hold(actor, From::kArgument);
  auto second = holds->hold(actor, From::kArgument);
  EXPECT_EQ(first, second);
  EXPECT_THAT(take(), ElementsAre("held"));
  first.reset();
  flush();
  EXPECT_THAT(take(), IsEmpty());
  second.reset();
  EXPECT_THAT(take(), IsEmpty());  // Not immediately.
  flush();
  EXPECT_THAT(take(), ElementsAre("released 1"));
  EXPECT_EQ(holds->held(), 0u);
}

TEST_F(HandleHoldsTest, AHandleThatComesBackInTimeIsNoNews) {
  auto handle = holds->hold(actor, From::kArgument);
  take();
  handle.reset();
  handle = holds->hold(actor, From::kArgument);
  flush();
  EXPECT_THAT(take(), IsEmpty());
  handle.reset();
  flush();
  EXPECT_THAT(take(), ElementsAre("released 1"));
}

TEST_F(HandleHoldsTest, CallsThatHaveNotEndedKeepIt) {
  auto handle = holds->hold(actor, From::kSpawn);
  take();
  busy.insert(actor);
  handle.reset();
  flush();
  flush();
  EXPECT_THAT(take(), IsEmpty());
  busy.clear();
  flush();
  EXPECT_THAT(take(), ElementsAre("released 1"));
  EXPECT_TRUE(timers.empty());  // No periodic checks remain.
}

TEST_F(HandleHoldsTest, AnAnswersHandleIsClaimedEachTime) {
  const auto handle = holds->hold(actor, From::kAnswer);
  const auto again = holds->hold(actor, From::kAnswer);
  holds->lend(actor);
  EXPECT_THAT(take(), ElementsAre("claimed", "claimed", "lent"));
}

TEST_F(HandleHoldsTest, WhatEndsTogetherIsSaidTogether) {
  std::vector<std::shared_ptr<const ActorHold>> many;
  for (int i = 0; i < 100; ++i) many.push_back(holds->hold_new(new_id<ActorId>(random)));
  EXPECT_THAT(take(), IsEmpty());  // The head counts the spawning client.
  holds->tell_all();
  EXPECT_THAT(take(), ElementsAre("all 100"));
  many.clear();
  EXPECT_EQ(timers.size(), 1u);
  flush();
  EXPECT_THAT(take(), ElementsAre("released 100"));
}

TEST_F(HandleHoldsTest, AnActorOfASharedHostPassesItsHoldToTheProcess) {
  const auto handle = holds->hold_new(actor);
  holds->pass_on(actor, "host");
  EXPECT_THAT(take(), ElementsAre("released 1 by host", "held"));
}

class LightHoldsTest : public HandleHoldsTest {
 protected:
  void deliver() {
    auto due = std::exchange(deliveries, {});
    for (auto& done : due) done();
  }
  const ActorId home = new_home_id(random);
  const ActorId light = light_id(home, 1);
  const ActorId another = light_id(home, 2);
};

TEST_F(LightHoldsTest, OneThatNobodyElseKnewIsLeft) {
  auto handle = holds->hold_light(light);
  auto copy = handle;
  auto killed = holds->hold_light(another);
  killed->ended();
  handle.reset();
  killed.reset();
  EXPECT_TRUE(timers.empty());
  copy.reset();
  flush();
  EXPECT_THAT(left, ElementsAre(light));
  EXPECT_THAT(take(), IsEmpty());
}

TEST_F(LightHoldsTest, OneThatIsPassedOnIsCountedByTheHeadUntilWhatWasCalledIsWithIt) {
  auto handle = holds->hold_light(light);
  handle->leaves();
  handle->leaves();
  EXPECT_THAT(take(), ElementsAre("passed on"));
  EXPECT_EQ(holds->hold(light, From::kArgument), handle);  // It was returned.
  holds->tell_all();
  EXPECT_THAT(take(), ElementsAre("all 0", "passed on"));
  handle.reset();
  flush();
  EXPECT_THAT(delivered, ElementsAre(light));
  EXPECT_THAT(take(), IsEmpty());
  deliver();
  EXPECT_THAT(take(), ElementsAre("released 1"));
  EXPECT_THAT(left, IsEmpty());
  EXPECT_EQ(holds->held(), 0u);
}

TEST_F(LightHoldsTest, WhoGotOneCountsAsWithEveryActor) {
  auto handle = holds->hold(light, From::kAnswer);
  EXPECT_THAT(take(), ElementsAre("claimed"));
  handle.reset();
  flush();
  handle = holds->hold(light, From::kArgument);  // Before the calls of the last holder have arrived.
  handle.reset();
  deliver();
  EXPECT_THAT(take(), IsEmpty()) << "there may be other calls by now";
  flush();
  handle = holds->hold(light, From::kArgument);
  deliver();
  EXPECT_THAT(take(), IsEmpty()) << "it is held";
  handle.reset();
  flush();
  deliver();
  EXPECT_THAT(take(), ElementsAre("released 1"));
  EXPECT_TRUE(timers.empty());
}

}  // namespace
}  // namespace volador
