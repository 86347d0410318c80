#include <gmock/gmock.h>

#include "head/actors/handle_table.h"
#include "runtime/light_id.h"
#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const ActorId kActor = test_id<ActorId>(9);
const Holder kProgram{.driver = test_id<DriverId>(1), .host = {}};
const Holder kProcess{.driver = {}, .host = test_id<HostId>(2)};
constexpr BootTime kHeldFrom{1h};

class HandleTableTest : public testing::Test {
 protected:
  HandleTableTest() { table.add(kHeldFrom, kActor); }
  ~HandleTableTest() override { table.check_invariants(); }
  HandleTable table{1s, 60s, 2};
};

TEST_F(HandleTableTest, WhatNobodyHoldsIsToldAfterTheGrace) {
  EXPECT_THAT(table.unheld(kHeldFrom + 999ms), IsEmpty());
  EXPECT_THAT(table.unheld(kHeldFrom + 1s), ElementsAre(kActor));
  table.hold(kActor, kProgram);
  EXPECT_THAT(table.unheld(kHeldFrom + 1h), IsEmpty());
  table.release(kHeldFrom + 1h, kActor, kProgram);
  EXPECT_THAT(table.unheld(kHeldFrom + 1h + 999ms), IsEmpty());
  EXPECT_THAT(table.unheld(kHeldFrom + 1h + 1s), ElementsAre(kActor));
  table.forget(kActor);
  EXPECT_THAT(table.unheld(kHeldFrom + 2h), IsEmpty());
}

TEST_F(HandleTableTest, OneHolderIsEnoughAndWhoIsGoneHoldsNothing) {
  table.hold(kActor, kProgram);
  table.hold(kActor, kProcess);
  table.hold(kActor, kProcess);
  table.release(kHeldFrom, kActor, kProgram);
  EXPECT_THAT(table.unheld(kHeldFrom + 1h), IsEmpty());
  table.gone(kHeldFrom + 1h, kProcess);
  table.gone(kHeldFrom + 2h, kProcess);
  EXPECT_EQ(table.unheld_since(kActor), kHeldFrom + 1h);
}

TEST_F(HandleTableTest, AHandleInAnAnswerCountsUntilItIsClaimed) {
  table.lend(kHeldFrom, kActor);
  EXPECT_THAT(table.unheld(kHeldFrom + 59s), IsEmpty());
  table.hold(kActor, kProcess);
  table.claim(kHeldFrom + 59s, kActor);
  table.release(kHeldFrom + 59s, kActor, kProcess);
  EXPECT_THAT(table.unheld(kHeldFrom + 60s), ElementsAre(kActor));
}

TEST_F(HandleTableTest, AClaimMayOvertakeItsLending) {
  table.hold(kActor, kProcess);
  table.claim(kHeldFrom, kActor);
  table.lend(kHeldFrom, kActor);
  table.release(kHeldFrom, kActor, kProcess);
  EXPECT_THAT(table.unheld(kHeldFrom + 1s), ElementsAre(kActor));
}

TEST_F(HandleTableTest, AnAnswerThatNobodyReadHoldsForAMinuteAtMost) {
  table.lend(kHeldFrom, kActor);
  EXPECT_THAT(table.unheld(kHeldFrom + 60s), IsEmpty());
  EXPECT_THAT(table.unheld(kHeldFrom + 61s), ElementsAre(kActor));
}

TEST_F(HandleTableTest, OthersAreNotCounted) {
  const ActorId other = test_id<ActorId>(8);
  table.hold(other, kProgram);
  table.lend(kHeldFrom, other);
  table.claim(kHeldFrom, other);
  table.release(kHeldFrom, other, kProgram);
  EXPECT_EQ(table.size(), 1u);
}

TEST_F(HandleTableTest, AMessageThatComesAgainIsNoLater) {
  EXPECT_TRUE(table.is_later(kProgram, 1));
  EXPECT_FALSE(table.is_later(kProgram, 1));
  EXPECT_TRUE(table.is_later(kProgram, 3));
  EXPECT_FALSE(table.is_later(kProgram, 2));
  EXPECT_TRUE(table.is_later(kProcess, 1));
}

const ActorId kHome = [] {
  SeededRandom random(3);
  return new_home_id(random);
}();

TEST_F(HandleTableTest, ALightActorIsToldOnceItsMakerHasPassedItOn) {
  const ActorId light = light_id(kHome, 1);
  EXPECT_TRUE(table.track_nested_actor(kHeldFrom, light));
  table.hold(light, kProcess);
  table.hold(kActor, kProcess);
  table.pass_on(light);
  table.hold(light, kProgram);
  table.release(kHeldFrom, light, kProgram);
  EXPECT_THAT(table.unheld(kHeldFrom + 1h), IsEmpty());
  table.release(kHeldFrom + 1h, light, kProcess);
  EXPECT_THAT(table.unheld(kHeldFrom + 2h), ElementsAre(light));
  table.forget(light);
  EXPECT_EQ(table.size(), 1u);
}

TEST_F(HandleTableTest, OneOfWhichItsMakerMayHaveAHandleIsOnlyForgotten) {
  const ActorId light = light_id(kHome, 1);
  table.track_nested_actor(kHeldFrom, light);
  table.hold(kActor, kProgram);
  table.hold(light, kProcess);
  table.release(kHeldFrom, light, kProcess);
  EXPECT_EQ(table.size(), 2u);
  EXPECT_THAT(table.unheld(kHeldFrom + 1s), IsEmpty());
  EXPECT_EQ(table.size(), 1u);
}

TEST_F(HandleTableTest, LightActorsGoWithTheirHomeAndAreNotTooMany) {
  EXPECT_TRUE(table.track_nested_actor(kHeldFrom, light_id(kHome, 1)));
  EXPECT_TRUE(table.track_nested_actor(kHeldFrom, light_id(kHome, 2)));
  EXPECT_TRUE(table.track_nested_actor(kHeldFrom, light_id(kHome, 2)));
  EXPECT_FALSE(table.track_nested_actor(kHeldFrom, light_id(kHome, 3)));
  table.hold(light_id(kHome, 1), kProgram);
  table.check_invariants();
  table.forget(kHome);
  EXPECT_EQ(table.size(), 1u);
  EXPECT_TRUE(table.track_nested_actor(kHeldFrom, light_id(kHome, 3)));
}

class HandlesTest : public CoreFixture {
 protected:
  void spawn_counted(uint8_t actor, bool detached = false, double cpus = 1) {
    protocol::ClientMessage message = spawn_message(actor, cpus);
    message.mutable_spawn()->mutable_spec()->set_wait_if_infeasible(true);
    message.mutable_spawn()->mutable_spec()->set_ends_with_handles(true);
    message.mutable_spawn()->mutable_spec()->set_detached(detached);
    send(message);
  }
  protocol::ClientMessage holds(uint64_t sequence) {
    protocol::ClientMessage message;
    message.mutable_holds()->set_sequence(sequence);
    return message;
  }
  void release(uint8_t actor, uint64_t sequence) {
    auto message = holds(sequence);
    message.mutable_holds()->add_released(raw(test_id<ActorId>(actor)));
    send(message);
  }
  // A host's message, sent through its worker.
  void host_holds(NodeSession session, const protocol::StartHost& start, uint8_t actor, uint64_t sequence) {
    protocol::WorkerMessage message;
    message.mutable_relay()->set_host_id(start.host_id());
    auto& said = *message.mutable_relay()->mutable_message()->mutable_holds();
    said.set_sequence(sequence);
    said.add_held(raw(test_id<ActorId>(actor)));
    take(core->on_node_message(now, session, message));
  }
};

TEST_F(HandlesTest, AnActorEndsWithItsLastHandle) {
  join(kNode1, 1, 2);
  hello();
  spawn_counted(1);
  ready(kNode1, last_start());
  pass(5s, {kNode1});
  EXPECT_EQ(state(1), protocol::ALIVE);
  release(1, 1);
  pass(900ms, {kNode1});
  EXPECT_EQ(state(1), protocol::ALIVE);
  pass(600ms, {kNode1});
  EXPECT_EQ(state(1), protocol::DEAD);
  EXPECT_EQ(info(1).cause().kind(), protocol::DeathCause::KILLED);
  EXPECT_THAT(info(1).cause().message(), HasSubstr("had a handle on it any more"));
  ASSERT_FALSE(ends().empty());
  EXPECT_GT(ends().back().grace_ms(), 0);  // Its destructor runs.
}

TEST_F(HandlesTest, AHandleThatWasPassedOnKeepsTheActorUntilItsProcessEnds) {
  join(kNode1, 1, 4);
  hello();
  spawn_counted(1);
  ready(kNode1, last_start());
  spawn(2);
  const auto holder = last_start();
  ready(kNode1, holder);
  host_holds(kNode1, holder, 1, 1);
  release(1, 1);
  pass(10s, {kNode1});
  EXPECT_EQ(state(1), protocol::ALIVE);
  ended(kNode1, holder);
  pass(2s, {kNode1});
  EXPECT_EQ(state(1), protocol::DEAD);
}

TEST_F(HandlesTest, NothingEndsWhileANodeMayHaveSaidThatItHoldsIt) {
  join(kNode1, 1, 1);
  join(kNode2, 2, 8);
  hello();
  spawn_counted(1);
  ready(kNode1, last_start());
  pass(1s, {kNode1, kNode2});
  release(1, 1);
  pass(2s, {kNode1});  // The other one is silent.
  EXPECT_EQ(state(1), protocol::ALIVE);
  pass(3s, {kNode1});  // And given up.
  EXPECT_EQ(state(1), protocol::DEAD);
}

TEST_F(HandlesTest, WhoHoldsSaysSoAgainAfterARestartOfTheHead) {
  join(kNode1, 1, 4);
  hello();
  spawn_counted(1, false, 100);  // They wait.
  spawn_counted(2, false, 100);
  restart_head();
  join(kNode1, 1, 4);
  hello();
  for (const uint8_t actor : {uint8_t{1}, uint8_t{2}}) {
    protocol::ClientMessage watch;
    watch.mutable_watch()->set_actor_id(raw(test_id<ActorId>(actor)));
    send(watch);
  }
  auto all = holds(1);
  all.mutable_holds()->set_all(true);
  all.mutable_holds()->add_held(raw(test_id<ActorId>(1)));
  send(all);
  pass(15s, {kNode1});
  EXPECT_NE(state(1), protocol::DEAD);
  EXPECT_EQ(state(2), protocol::DEAD);
}

TEST_F(HandlesTest, DetachedActorsAndThoseOfNoCountLiveOn) {
  join(kNode1, 1, 4);
  hello();
  spawn_counted(1, true);
  spawn(2);
  release(1, 1);
  release(2, 2);
  pass(10s, {kNode1});
  EXPECT_NE(state(1), protocol::DEAD);
  EXPECT_NE(state(2), protocol::DEAD);
}

class ObjectHandlesTest : public HandlesTest {
 protected:
  void store_says(NodeSession session, uint64_t sequence, std::vector<ActorId> held, std::vector<ActorId> released = {},
                  bool all = false) {
    protocol::WorkerMessage message;
    auto& said = *message.mutable_holds();
    said.set_sequence(sequence);
    said.set_all(all);
    for (const ActorId& actor : held) said.add_held(raw(actor));
    for (const ActorId& actor : released) said.add_released(raw(actor));
    take(core->on_node_message(now, session, message));
  }
};

TEST_F(ObjectHandlesTest, AnObjectOfANodeKeepsTheActorUntilItIsGone) {
  join(kNode1, 1, 4);
  hello();
  spawn_counted(1);
  ready(kNode1, last_start());
  store_says(kNode1, 1, {test_id<ActorId>(1)});
  release(1, 1);
  pass(10s, {kNode1});
  EXPECT_EQ(state(1), protocol::ALIVE);
  store_says(kNode1, 2, {}, {test_id<ActorId>(1)});
  pass(2s, {kNode1});
  EXPECT_EQ(state(1), protocol::DEAD);
}

TEST_F(ObjectHandlesTest, TheObjectsOfANodeThatIsGivenUpHoldNothing) {
  join(kNode1, 1, 4);
  join(kNode2, 2, 4);
  hello();
  spawn_counted(1, false, 100);  // It waits.
  store_says(kNode2, 1, {test_id<ActorId>(1)});
  release(1, 1);
  pass(3s, {kNode1, kNode2});
  EXPECT_NE(state(1), protocol::DEAD);
  pass(8s, {kNode1});
  EXPECT_EQ(state(1), protocol::DEAD);
}

TEST_F(ObjectHandlesTest, AWorkerThatStartedAnewHasAnEmptyStoreAndCountsAnew) {
  join(kNode1, 1, 4);
  hello();
  spawn_counted(1, false, 100);
  spawn_counted(2, false, 100);
  store_says(kNode1, 5, {test_id<ActorId>(1), test_id<ActorId>(2)});
  release(1, 1);
  release(2, 2);
  take(core->on_node_message(now, kNode2, registration(1, 4, 0, "second")));
  store_says(kNode2, 1, {test_id<ActorId>(2)}, {}, true);
  pass(3s, {kNode2});
  EXPECT_EQ(state(1), protocol::DEAD);
  EXPECT_NE(state(2), protocol::DEAD);
}

class LightHandlesTest : public ObjectHandlesTest {
 protected:
  // An actor registered at the head whose id is that of a home process.
  protocol::StartHost spawn_home() {
    protocol::ClientMessage message = spawn_message(1, 0);
    message.mutable_spawn()->set_request_id(raw(kHome));
    message.mutable_spawn()->mutable_spec()->set_actor_id(raw(kHome));
    send(message);
    const auto start = last_start();
    ready(kNode1, start);
    return start;
  }
  std::vector<ActorId> ended_lights() {
    std::vector<ActorId> all;
    for (const auto& out : to_nodes) {
      for (const std::string& light : out.message.relayed().message().end_lights().actors())
        all.push_back(id_from_raw<ActorId>(light));
    }
    return all;
  }
};

TEST_F(LightHandlesTest, ItsHomeIsToldToEndALightActorThatWasPassedOnAndDropped) {
  join(kNode1, 1, 4);
  hello();
  spawn_home();
  const ActorId light = light_id(kHome, 1), kept = light_id(kHome, 2);
  store_says(kNode1, 1, {light, kept});  // As a process may do: before the message of its creator.
  auto passed = holds(1);
  passed.mutable_holds()->add_passed_on(raw(light));
  send(passed);
  store_says(kNode1, 2, {}, {light, kept});
  pass(10s, {kNode1});
  EXPECT_THAT(ended_lights(), IsEmpty());
  auto released = holds(2);
  released.mutable_holds()->add_released(raw(light));
  send(released);
  pass(2s, {kNode1});
  EXPECT_THAT(ended_lights(), ElementsAre(light));
}

TEST_F(LightHandlesTest, WhoDiesHoldsNoLightActor) {
  join(kNode1, 1, 4);
  hello();
  spawn_home();
  spawn(2);
  const auto holder = last_start();
  ready(kNode1, holder);
  const ActorId light = light_id(kHome, 1);
  auto passed = holds(1);
  passed.mutable_holds()->add_passed_on(raw(light));
  passed.mutable_holds()->add_released(raw(light));
  protocol::WorkerMessage message;
  message.mutable_relay()->set_host_id(holder.host_id());
  message.mutable_relay()->mutable_message()->mutable_holds()->set_sequence(1);
  message.mutable_relay()->mutable_message()->mutable_holds()->add_held(raw(light));
  take(core->on_node_message(now, kNode1, message));
  send(passed);
  pass(5s, {kNode1});
  EXPECT_THAT(ended_lights(), IsEmpty());
  ended(kNode1, holder);
  pass(2s, {kNode1});
  EXPECT_THAT(ended_lights(), ElementsAre(light));
}

}  // namespace
}  // namespace volador::head
