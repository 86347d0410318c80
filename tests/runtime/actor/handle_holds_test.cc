#include "runtime/actor/handle_holds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <set>

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
      if (message.claimed_size() > 0) said.push_back("claimed");
      if (message.lent_size() > 0) said.push_back("lent");
      if (message.released_size() > 0) said.push_back("released " + std::to_string(message.released_size()) + by);
    };
    options.has_calls = [this](const ActorId& actor) { return busy.contains(actor); };
    options.leave = [this](const ActorId& actor) { left.push_back(actor); };
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
  EXPECT_THAT(take(), IsEmpty());  // Not at once.
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
  EXPECT_TRUE(timers.empty());  // Nothing is looked at for ever.
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
  EXPECT_THAT(take(), IsEmpty());  // The head counts who spawns.
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

TEST_F(HandleHoldsTest, ALightActorThatNobodyElseKnewIsLeft) {
  const ActorId known = new_id<ActorId>(random);
  auto light = holds->hold_light(actor);
  auto copy = light;
  auto passed_on = holds->hold_light(known);
  passed_on->leaves();
  light.reset();
  passed_on.reset();
  EXPECT_TRUE(timers.empty());
  copy.reset();
  flush();
  EXPECT_THAT(left, ElementsAre(actor));
  EXPECT_THAT(take(), IsEmpty());
}

}  // namespace
}  // namespace volador
