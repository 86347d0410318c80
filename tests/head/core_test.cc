#include "head/core.h"

#include <gmock/gmock.h>

#include "head/actor_history.h"
#include "head/wire.h"
#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

using testing::HasSubstr;

class HeadCoreTest : public CoreFixture {};

TEST_F(HeadCoreTest, SpawnStartsAHostAndItsReportMakesTheActorAlive) {
  join(kNode1, 1, 2);
  hello();
  spawn(1);
  EXPECT_EQ(last_reply().actor().state(), protocol::STARTING);
  ASSERT_EQ(starts().size(), 1u);
  EXPECT_EQ(last_start().epoch(), 1u);
  EXPECT_EQ(last_start().program().sha256(), std::string(32, 'p'));
  ready(kNode1, last_start());
  EXPECT_EQ(state(1), protocol::ALIVE);
  EXPECT_EQ(info(1).address().unix_path(), "/run/host.sock");
  EXPECT_EQ(cpus_used(), kUnit);
}

TEST_F(HeadCoreTest, CallsThatComeWithAStartGoToItsHostWhereTheyMay) {
  join(kNode1, 1, 2);
  hello();
  auto spawned = spawn_message(1);
  auto& call = *spawned.mutable_spawn()->mutable_spec()->add_opening();
  call.set_request_id(3);
  call.set_arguments("first");
  send(spawned);
  ASSERT_EQ(last_start().spec().opening_size(), 1);
  EXPECT_EQ(last_start().spec().opening(0).arguments(), "first");

  const auto refused = [&](auto change) {
    auto message = spawn_message(2);
    change(*message.mutable_spawn()->mutable_spec());
    send(message);
    EXPECT_EQ(last_reply().error().code(), static_cast<int>(ErrorCode::kInvalidArgument));
    return last_reply().error().message();
  };
  EXPECT_THAT(refused([](auto& spec) {
                spec.add_opening();
                spec.set_max_restarts(1);
              }),
              HasSubstr("without restarts"));
  EXPECT_THAT(refused([](auto& spec) {
                for (int i = 0; i < 17; ++i) spec.add_opening();
              }),
              HasSubstr("at most 16"));
  EXPECT_THAT(refused([](auto& spec) { spec.add_opening()->set_arguments(std::string((16 << 20) + 1, 'x')); }), HasSubstr("pass large values in calls"));
}

TEST_F(HeadCoreTest, SpawningTwiceIsSpawningOnce) {
  join(kNode1, 1, 2);
  hello();
  spawn(1);
  spawn(1);
  EXPECT_EQ(starts().size(), 1u);
  EXPECT_EQ(last_reply().actor().state(), protocol::STARTING);
  EXPECT_EQ(cpus_used(), kUnit);
}

TEST_F(HeadCoreTest, RepeatedReportsChangeNothing) {
  join(kNode1, 1, 2);
  hello();
  spawn(1, 1, 1);
  const auto first = last_start();
  ready(kNode1, first);
  const uint64_t version = info(1).version();
  ready(kNode1, first);
  EXPECT_EQ(info(1).version(), version);
  ended(kNode1, first);
  EXPECT_EQ(starts().size(), 2u);
  EXPECT_EQ(last_start().epoch(), 2u);
  ended(kNode1, first);
  EXPECT_EQ(starts().size(), 2u);
  clear();
  ready(kNode1, first);  // Late: of an epoch that has ended.
  ASSERT_EQ(ends().size(), 1u);
  EXPECT_EQ(ends()[0].host_id(), first.host_id());
  EXPECT_EQ(state(1), protocol::STARTING);
}

TEST_F(HeadCoreTest, AnActorWithoutRestartsLeftIsDeadWithItsCause) {
  join(kNode1, 1, 1);
  hello();
  spawn(1);
  ready(kNode1, last_start());
  ended(kNode1, last_start());
  EXPECT_EQ(state(1), protocol::DEAD);
  EXPECT_EQ(info(1).cause().kind(), protocol::DeathCause::SIGNALED);
  EXPECT_EQ(info(1).cause().node_name(), "n1");
  EXPECT_EQ(cpus_used(), 0);
}

TEST_F(HeadCoreTest, AnActorTellsWhatItWentThroughAndWhyItIsWhereItIs) {
  join(kNode1, 1, 1);
  hello();
  spawn(1, 1, 1);
  pass(1500ms, {kNode1});
  ready(kNode1, last_start());
  const auto told = [&] { return *core->explain(now, to_string(test_id<ActorId>(1))); };
  EXPECT_THAT(told(), HasSubstr("      made  pending\n"));
  EXPECT_THAT(told(), HasSubstr("+0.00 s  starting on node n1, epoch 1: the fullest node that it fits on\n"));
  EXPECT_THAT(told(), HasSubstr("+1.50 s  alive on node n1, epoch 1\n"));
  ended(kNode1, last_start());
  EXPECT_THAT(told(), HasSubstr("+1.50 s  restarting: " + describe(info(1).cause())));
  EXPECT_THAT(told(), HasSubstr("starting on node n1, epoch 2"));
  ready(kNode1, last_start());
  restart_head();
  EXPECT_THAT(told(), HasSubstr("      made  alive on node n1, epoch 2: an earlier head knew it\n"));
}

TEST(ActorHistory, KeepsTheFirstAndTheLast) {
  ActorHistory history;
  for (uint64_t epoch = 0; epoch < 100; ++epoch) history.add({.epoch = epoch});
  ASSERT_EQ(history.changes().size(), ActorHistory::kMost);
  EXPECT_EQ(history.left_out(), 100 - ActorHistory::kMost);
  EXPECT_EQ(history.changes().front().epoch, 0u);
  EXPECT_EQ(history.changes()[1].epoch, 100 - ActorHistory::kMost + 1);
  EXPECT_EQ(history.changes().back().epoch, 99u);
}

TEST_F(HeadCoreTest, AConstructorThatThrewIsNotTriedAgain) {
  join(kNode1, 1, 1);
  hello();
  spawn(1, 1, -1);
  ended(kNode1, last_start(), protocol::DeathCause::CONSTRUCTOR_THREW);
  EXPECT_EQ(state(1), protocol::DEAD);
}

TEST_F(HeadCoreTest, EarlyDeathsInARowDelayTheRestart) {
  join(kNode1, 1, 1);
  hello();
  spawn(1, 1, -1);
  ended(kNode1, last_start());
  EXPECT_EQ(starts().size(), 2u);  // The first restart is at once.
  ended(kNode1, last_start());
  EXPECT_EQ(starts().size(), 2u);
  EXPECT_THAT(info(1).reason(), HasSubstr("restarts in 0.1 s, after 2 early deaths"));
  pass(200ms, {kNode1});
  EXPECT_EQ(starts().size(), 3u);
}

TEST_F(HeadCoreTest, ARequestThatNoNodeCouldHoldIsRefused) {
  join(kNode1, 1, 2);
  hello();
  spawn(1, 4);
  EXPECT_EQ(last_reply().error().code(), static_cast<int>(ErrorCode::kInfeasible));
  EXPECT_THAT(last_reply().error().message(), HasSubstr("actor Counter asks for cpus 4; the largest node (n1) has 2. It could never start."));
  EXPECT_THAT(last_reply().error().message(), HasSubstr("ask at most 2, or join a larger node"));
  auto waits = spawn_message(2, 4);
  waits.mutable_spawn()->mutable_spec()->set_wait_if_infeasible(true);
  send(waits);
  EXPECT_EQ(state(2), protocol::PENDING);
  EXPECT_THAT(info(2).reason(), HasSubstr("the largest node (n1) has 2: waits for a larger node"));
  join(kNode2, 2, 8);
  EXPECT_EQ(state(2), protocol::STARTING);
}

TEST_F(HeadCoreTest, WithoutANodeRequestsWaitAndSaySo) {
  hello();
  spawn(1);
  EXPECT_EQ(info(1).reason(), "no node has joined yet");
  join(kNode1, 1, 1);
  EXPECT_EQ(state(1), protocol::STARTING);
  spawn(2);
  EXPECT_EQ(info(2).reason(), "waits for cpus 1: 1 of 1 in use on the only node");
  spawn(3);
  EXPECT_EQ(info(3).reason(), "waits for cpus 1: 1 of 1 in use on the only node; behind 1 earlier request");
  EXPECT_THAT(*core->explain(now, to_string(test_id<ActorId>(3))), HasSubstr("behind 1 earlier request"));
}

TEST_F(HeadCoreTest, ASecondActorOfANameIsRefusedAndTheHolderNamed) {
  join(kNode1, 1, 2);
  hello();
  auto first = spawn_message(1);
  first.mutable_spawn()->mutable_spec()->set_name("hits");
  send(first);
  auto second = spawn_message(2);
  second.mutable_spawn()->mutable_spec()->set_name("hits");
  send(second);
  EXPECT_THAT(last_reply().error().message(), HasSubstr("actor name \"hits\" is held by actor " + short_id(test_id<ActorId>(1))));
  protocol::ClientMessage find;
  find.mutable_find()->set_name("hits");
  send(find);
  EXPECT_EQ(last_reply().actor().actor_id(), raw(test_id<ActorId>(1)));
}

TEST_F(HeadCoreTest, ASuccessorOfANameWaitsUntilTheFormerHostHasEnded) {
  join(kNode1, 1, 4);
  hello();
  auto first = spawn_message(1);
  first.mutable_spawn()->mutable_spec()->set_name("hits");
  send(first);
  const auto start = last_start();
  ready(kNode1, start);
  send(kill_message(1));
  EXPECT_EQ(state(1), protocol::DEAD);
  auto second = spawn_message(2);
  second.mutable_spawn()->mutable_spec()->set_name("hits");
  send(second);
  EXPECT_EQ(state(2), protocol::PENDING);
  EXPECT_THAT(info(2).reason(), HasSubstr("waits until the former actor \"hits\""));
  ended(kNode1, start, protocol::DeathCause::KILLED);
  EXPECT_EQ(state(2), protocol::STARTING);
}

TEST_F(HeadCoreTest, KillHoldsResourcesUntilTheHostIsReportedGone) {
  join(kNode1, 1, 1);
  hello();
  spawn(1);
  const auto start = last_start();
  ready(kNode1, start);
  const auto kill = kill_message(1);
  send(kill);
  send(kill);
  EXPECT_EQ(state(1), protocol::DEAD);
  ASSERT_EQ(ends().size(), 1u);
  EXPECT_EQ(cpus_used(), kUnit);
  pass(1500ms, {kNode1});
  EXPECT_GE(ends().size(), 2u);  // Repeated until it is answered.
  ended(kNode1, start, protocol::DeathCause::KILLED);
  EXPECT_EQ(cpus_used(), 0);
}

TEST_F(HeadCoreTest, KillWithRestartIsCarriedOutOnce) {
  join(kNode1, 1, 1);
  hello();
  spawn(1, 1, 5);
  const auto first = last_start();
  ready(kNode1, first);
  const auto kill = kill_message(1, false);
  send(kill);
  EXPECT_EQ(state(1), protocol::RESTARTING);
  EXPECT_EQ(starts().size(), 1u);  // Not before the former host has ended.
  ended(kNode1, first, protocol::DeathCause::KILLED);
  ASSERT_EQ(starts().size(), 2u);
  EXPECT_EQ(last_start().epoch(), 2u);
  ready(kNode1, last_start());
  send(kill);
  EXPECT_EQ(state(1), protocol::ALIVE);
}

TEST_F(HeadCoreTest, ADriverThatLeavesTakesItsActorsButNotDetachedOnes) {
  join(kNode1, 1, 4);
  hello();
  spawn(1);
  auto detached = spawn_message(2);
  detached.mutable_spawn()->mutable_spec()->set_detached(true);
  send(detached);
  for (const auto& start : starts()) ready(kNode1, start);
  clear();
  protocol::ClientMessage goodbye;
  goodbye.mutable_goodbye();
  send(goodbye);
  send(goodbye);
  ASSERT_EQ(ends().size(), 1u);
  EXPECT_EQ(ends()[0].cause().kind(), protocol::DeathCause::DRIVER_GONE);
  EXPECT_EQ(core->status(now).actors_by_state().at("alive"), 1);
  EXPECT_EQ(core->status(now).drivers(), 0);
  EXPECT_TRUE(core->program_in_use(std::string(32, 'p')));  // The detached one may restart.
}

TEST_F(HeadCoreTest, ALostDriverMayComeBackWithinItsGrace) {
  join(kNode1, 1, 1);
  hello();
  spawn(1);
  ready(kNode1, last_start());
  take(core->on_client_lost(now, kDriver1));
  take(core->on_client_lost(now, kDriver1));
  pass(1000ms, {kNode1});
  hello(ClientSession{2});
  pass(3000ms, {kNode1});
  EXPECT_TRUE(ends().empty());
  take(core->on_client_lost(now, ClientSession{2}));
  pass(1400ms, {kNode1});
  EXPECT_TRUE(ends().empty());
  pass(200ms, {kNode1});
  EXPECT_EQ(ends().size(), 1u);
}

TEST_F(HeadCoreTest, AChildEndsWithTheActorThatMadeIt) {
  join(kNode1, 1, 4);
  hello();
  spawn(1);
  const auto parent = last_start();
  ready(kNode1, parent);
  protocol::WorkerMessage relay;
  relay.mutable_relay()->set_host_id(parent.host_id());
  *relay.mutable_relay()->mutable_message() = spawn_message(2);
  take(core->on_node_message(now, kNode1, relay));
  take(core->on_node_message(now, kNode1, relay));
  ASSERT_EQ(starts().size(), 2u);
  EXPECT_TRUE(to_nodes.back().message.has_relayed());
  ended(kNode1, parent);
  ASSERT_EQ(ends().size(), 1u);
  EXPECT_EQ(ends()[0].host_id(), starts()[1].host_id());
}

TEST_F(HeadCoreTest, ALostConnectionPlacesNothingNewAndRestartsNothingBeforeTheLeaseEnds) {
  join(kNode1, 1, 4);
  join(kNode2, 2, 4);
  hello();
  spawn(1, 1, 1);
  const auto first = last_start();
  ready(kNode1, first);
  take(core->on_node_lost(now, kNode1));
  take(core->on_node_lost(now, kNode1));
  spawn(2);
  EXPECT_EQ(info(2).node_name(), "n2");
  pass(3900ms, {kNode2});
  EXPECT_EQ(state(1), protocol::ALIVE);
  pass(200ms, {kNode2});
  EXPECT_EQ(state(1), protocol::STARTING);
  EXPECT_EQ(info(1).node_name(), "n2");
  EXPECT_EQ(last_start().epoch(), 2u);
}

TEST_F(HeadCoreTest, ANodeThatIsGivenUpIsFencedAndItsHostsAreStaleWhenItReturns) {
  join(kNode1, 1, 4);
  join(kNode2, 2, 4);
  hello();
  spawn(1, 1, 1);
  const auto first = last_start();
  ready(kNode1, first);
  pass(4100ms, {kNode2});  // Frozen: silent, its connection stands.
  EXPECT_EQ(closed_nodes, std::vector{kNode1});
  EXPECT_EQ(last_start().epoch(), 2u);
  const size_t before = acks();
  heartbeat(kNode1);  // What lay in its socket.
  EXPECT_EQ(acks(), before);
  auto again = registration(1, 4);
  fill_report(*again.mutable_register_()->add_hosts(), first);
  take(core->on_node_message(now, NodeSession{3}, again));
  ASSERT_EQ(last_registered().stale_hosts_size(), 1);
  EXPECT_EQ(last_registered().stale_hosts(0), first.host_id());
  EXPECT_EQ(info(1).node_name(), "n2");
}

TEST_F(HeadCoreTest, ASilentNodeIsSuspectUntilItIsHeard) {
  join(kNode1, 1, 1);
  hello();
  pass(1600ms);
  spawn(1);
  EXPECT_EQ(info(1).reason(), "node n1 is suspect (silent); no other could hold it");
  heartbeat(kNode1);
  EXPECT_EQ(state(1), protocol::STARTING);
}

TEST_F(HeadCoreTest, TheHeadsOwnPauseIsHeldAgainstNobody) {
  join(kNode1, 1, 1);
  hello();
  spawn(1, 1, 1);
  ready(kNode1, last_start());
  pass(1000ms, {kNode1});
  now += 30s;
  tick();
  EXPECT_EQ(state(1), protocol::ALIVE);
  heartbeat(kNode1);
  pass(2000ms, {kNode1});
  EXPECT_EQ(starts().size(), 1u);
}

TEST_F(HeadCoreTest, AReconnectConfirmsWhatRunsAndRepeatsAnOrderThatWasLost) {
  join(kNode1, 1, 4);
  hello();
  spawn(1);
  spawn(2);
  const auto all = starts();
  ready(kNode1, all[0]);
  take(core->on_node_lost(now, kNode1));
  clear();
  now += 1s;
  auto again = registration(1, 4);
  fill_report(*again.mutable_register_()->add_hosts(), all[0]);
  take(core->on_node_message(now, NodeSession{3}, again));
  ASSERT_EQ(starts().size(), 1u);
  EXPECT_EQ(starts()[0].host_id(), all[1].host_id());
  EXPECT_EQ(starts()[0].epoch(), all[1].epoch());
  EXPECT_TRUE(to_nodes.front().message.has_registered());
  take(core->on_node_message(now, NodeSession{3}, again));  // Repeated: nothing.
  EXPECT_EQ(starts().size(), 1u);
  EXPECT_EQ(state(1), protocol::ALIVE);
}

TEST_F(HeadCoreTest, AHostThatIsMissingAfterAReconnectMaySayWhyItEnded) {
  join(kNode1, 1, 4);
  hello();
  spawn(1);
  spawn(2);
  const auto all = starts();
  for (const auto& start : all) ready(kNode1, start);
  take(core->on_node_lost(now, kNode1));
  take(core->on_node_message(now, NodeSession{3}, registration(1, 4)));
  ended(NodeSession{3}, all[0], protocol::DeathCause::OUT_OF_MEMORY);
  EXPECT_EQ(info(1).cause().kind(), protocol::DeathCause::OUT_OF_MEMORY);
  EXPECT_EQ(state(2), protocol::ALIVE);
  pass(1100ms, {NodeSession{3}});
  EXPECT_EQ(state(2), protocol::DEAD);
  EXPECT_THAT(info(2).cause().message(), HasSubstr("its host was gone when node n1 came back"));
}

TEST_F(HeadCoreTest, WhatARestartedWorkerLeftBehindWaitsForItsOldLease) {
  join(kNode1, 1, 4);
  hello();
  spawn(1, 1, 1);
  ready(kNode1, last_start());
  pass(1000ms, {kNode1});
  take(core->on_node_message(now, NodeSession{3}, registration(1, 4, 0, "second")));
  EXPECT_EQ(closed_nodes, std::vector{kNode1});
  pass(3900ms, {NodeSession{3}});
  EXPECT_EQ(starts().size(), 1u);
  pass(200ms, {NodeSession{3}});
  EXPECT_EQ(starts().size(), 2u);
  EXPECT_EQ(last_start().epoch(), 2u);
}

TEST_F(HeadCoreTest, ANewWorkerHasNoSayInWhatItsPredecessorLeftBehind) {
  join(kNode1, 1, 4);
  hello();
  spawn(1, 1, 1);
  const auto first = last_start();
  ready(kNode1, first);
  pass(1000ms, {kNode1});
  send(kill_message(1, false));
  take(core->on_node_message(now, NodeSession{3}, registration(1, 4, 0, "second")));
  clear();
  pass(1500ms, {NodeSession{3}});
  EXPECT_TRUE(ends().empty());  // It would say that the host is gone, which it cannot know.
  ended(NodeSession{3}, first);
  EXPECT_TRUE(starts().empty());
  pass(2600ms, {NodeSession{3}});
  EXPECT_EQ(starts().size(), 1u);
}

TEST_F(HeadCoreTest, ASecondNodeOfANameIsRefusedAndTheFirstNamed) {
  join(kNode1, 1, 4);
  auto twin = registration(2, 4);
  twin.mutable_register_()->set_name("n1");
  take(core->on_node_message(now, kNode2, twin));
  EXPECT_THAT(last_refusal(), HasSubstr("node name \"n1\" is taken by node " + short_id(test_id<NodeId>(1))));
  EXPECT_EQ(closed_nodes, std::vector{kNode2});
}

TEST_F(HeadCoreTest, AnotherVersionOfTheProtocolIsRefusedByName) {
  auto other = registration(1, 4);
  other.mutable_register_()->set_protocol_version(2);
  take(core->on_node_message(now, kNode1, other));
  EXPECT_THAT(last_refusal(), HasSubstr("install the same version on both"));
}

TEST_F(HeadCoreTest, ALeavingNodesActorsAreAtOncePlacedElsewhere) {
  join(kNode1, 1, 1);
  hello();
  spawn(1, 1, 1);
  ready(kNode1, last_start());
  join(kNode2, 2, 1);
  protocol::WorkerMessage leaving;
  leaving.mutable_leaving();
  take(core->on_node_message(now, kNode1, leaving));
  take(core->on_node_message(now, kNode1, leaving));
  EXPECT_EQ(info(1).node_name(), "n2");
  EXPECT_EQ(core->list_nodes(now, {}).nodes(0).state(), "dead");
}

TEST_F(HeadCoreTest, AProgramThatCannotRunOnANodeIsTriedOnAnother) {
  join(kNode1, 1, 1);
  join(kNode2, 2, 1);
  hello();
  spawn(1);
  const auto first = last_start();
  EXPECT_EQ(info(1).node_name(), "n1");
  protocol::WorkerMessage failed;
  failed.mutable_program_failed()->set_sha256(std::string(32, 'p'));
  failed.mutable_program_failed()->mutable_error()->set_message("libfoo.so.1 is missing");
  take(core->on_node_message(now, kNode1, failed));
  ended(kNode1, first, protocol::DeathCause::START_FAILED);
  EXPECT_EQ(info(1).node_name(), "n2");
  EXPECT_EQ(info(1).restarts(), 0);
  failed.mutable_program_failed()->mutable_error()->set_message("libfoo.so.1 is missing");
  take(core->on_node_message(now, kNode2, failed));
  ended(kNode2, last_start(), protocol::DeathCause::START_FAILED);
  EXPECT_EQ(state(1), protocol::DEAD);
}

TEST_F(HeadCoreTest, DrainPlacesNothingNewAndSurvivesARestartOfTheHead) {
  join(kNode1, 1, 2);
  hello();
  take(*core->drain(now, "n1", false));
  EXPECT_EQ(core->drain(now, "n9", false).error().code, ErrorCode::kNotFound);
  spawn(1);
  EXPECT_THAT(info(1).reason(), HasSubstr("node n1 is draining"));
  restart_head();
  take(core->on_node_message(now, NodeSession{5}, registration(1, 2)));
  EXPECT_EQ(core->list_nodes(now, {}).nodes(0).state(), "draining");
  take(*core->drain(now, "n1", true));
  EXPECT_EQ(starts().size(), 1u);
}

// ---- a head that was killed and started again ----

TEST_F(HeadCoreTest, ARestartedHeadRestartsNothingThatIsReportedToRun) {
  join(kNode1, 1, 2, 1);
  hello();
  auto message = spawn_message(1);
  (*message.mutable_spawn()->mutable_spec()->mutable_resources()->mutable_amounts())["gpus"] = kUnit / 2;
  send(message);
  const auto start = last_start();
  ready(kNode1, start);
  const uint64_t version = info(1).version();
  restart_head();
  clear();
  now += 2s;
  auto again = registration(1, 2, 1);
  fill_report(*again.mutable_register_()->add_hosts(), start);
  take(core->on_node_message(now, NodeSession{5}, again));
  EXPECT_EQ(last_registered().stale_hosts_size(), 0);
  hello(ClientSession{5});
  protocol::ClientMessage watch;
  watch.mutable_watch()->set_actor_id(raw(test_id<ActorId>(1)));
  send(watch, ClientSession{5});
  EXPECT_EQ(state(1), protocol::ALIVE);
  EXPECT_GT(info(1).version(), version);
  EXPECT_EQ(info(1).address().unix_path(), "/run/host.sock");
  pass(12s, {NodeSession{5}});
  EXPECT_TRUE(starts().empty());
  EXPECT_TRUE(ends().empty());
  EXPECT_EQ(core->status(now).used().at("gpus"), kUnit / 2);
}

TEST_F(HeadCoreTest, ARestartedHeadPlacesNothingAgainBeforeItsWindowEnds) {
  join(kNode1, 1, 2);
  join(kNode2, 2, 2);
  hello();
  spawn(1, 1, 1);
  ready(kNode1, last_start());
  restart_head();
  clear();
  take(core->on_node_message(now, NodeSession{6}, registration(2, 2)));
  hello(ClientSession{5});
  const std::string reason = *core->explain(now, to_string(test_id<ActorId>(1)));
  EXPECT_THAT(reason, HasSubstr("after a head restart: n1 has 10.0 s to come back"));
  pass(9900ms, {NodeSession{6}});
  EXPECT_TRUE(starts().empty());
  pass(200ms, {NodeSession{6}});
  ASSERT_EQ(starts().size(), 1u);
  EXPECT_EQ(starts()[0].epoch(), 2u);
}

TEST_F(HeadCoreTest, AnAcknowledgedSpawnSurvivesTheHead) {
  hello();
  spawn(1);
  EXPECT_FALSE(last_reply().has_error());
  restart_head();
  hello(ClientSession{5});
  join(kNode1, 1, 1);
  ASSERT_EQ(starts().size(), 1u);
  EXPECT_EQ(starts()[0].spec().class_name(), "Counter");
}

TEST_F(HeadCoreTest, ADriverThatDiedWithTheHeadIsGoneAfterTheWindow) {
  join(kNode1, 1, 1);
  hello();
  spawn(1);
  const auto start = last_start();
  ready(kNode1, start);
  restart_head();
  auto again = registration(1, 1);
  fill_report(*again.mutable_register_()->add_hosts(), start);
  take(core->on_node_message(now, NodeSession{5}, again));
  pass(9900ms, {NodeSession{5}});
  EXPECT_TRUE(ends().empty());
  pass(200ms, {NodeSession{5}});
  EXPECT_EQ(ends().size(), 1u);
}

TEST_F(HeadCoreTest, AKilledActorIsStaleAfterARestartOfTheHead) {
  join(kNode1, 1, 1);
  hello();
  spawn(1);
  const auto start = last_start();
  ready(kNode1, start);
  send(kill_message(1));
  restart_head();
  auto again = registration(1, 1);
  fill_report(*again.mutable_register_()->add_hosts(), start);
  take(core->on_node_message(now, NodeSession{5}, again));
  ASSERT_EQ(last_registered().stale_hosts_size(), 1);
  EXPECT_EQ(cpus_used(), kUnit);
  ended(NodeSession{5}, start, protocol::DeathCause::KILLED);
  EXPECT_EQ(cpus_used(), 0);
}

TEST_F(HeadCoreTest, ABadRowIsLeftOutAndNothingElse) {
  join(kNode1, 1, 1);
  hello();
  spawn(1);
  rows[{"actors", "not an id"}] = "\xff\xff";
  rows[{"actor_states", raw(test_id<ActorId>(77))}] = "";
  rows[{"nodes", "x"}] = "\x0a\xff";
  restart_head();
  EXPECT_EQ(core->status(now).actors_by_state().at("starting"), 1);
}

TEST_F(HeadCoreTest, DeadActorsAreForgottenBeyondTheLimit) {
  options.limits.dead_actors = 2;
  restart_head();
  join(kNode1, 1, 1);
  hello();
  for (uint8_t actor = 1; actor <= 5; ++actor) {
    spawn(actor);
    ended(kNode1, last_start());
  }
  EXPECT_EQ(core->status(now).actors_by_state().at("dead"), 2);
  size_t kept = 0;
  for (const auto& [row, value] : rows) kept += row.first == "actors" ? 1 : 0;
  EXPECT_EQ(kept, 2u);
}

TEST_F(HeadCoreTest, ClusterStateGoesToDriversAtMostEveryFifthOfASecond) {
  join(kNode1, 1, 8);
  hello();
  pass(300ms, {kNode1});
  clear();
  for (uint8_t actor = 1; actor <= 5; ++actor) spawn(actor);
  pass(200ms, {kNode1});
  std::vector<protocol::ClusterState> states;
  for (const auto& out : to_clients) {
    if (out.message.has_cluster()) states.push_back(out.message.cluster());
  }
  ASSERT_GE(states.size(), 1u);
  ASSERT_LE(states.size(), 2u);
  EXPECT_EQ(states.back().used().amounts().at("cpus"), 5 * kUnit);
}

TEST_F(HeadCoreTest, LogLinesGoToTheDriverOfTheActor) {
  join(kNode1, 1, 8);
  hello();
  spawn(1);
  protocol::WorkerMessage message;
  message.mutable_log()->set_actor_id(raw(test_id<ActorId>(1)));
  message.mutable_log()->add_lines("hello");
  take(core->on_node_message(now, kNode1, message));
  EXPECT_EQ(to_clients.back().message.log().lines(0), "hello");
}

TEST_F(HeadCoreTest, AProgramIsAskedOfADriverThatHasIt) {
  EXPECT_EQ(core->need_program(now, std::string(32, 'p')).error().code, ErrorCode::kNotFound);
  hello();
  take(*core->need_program(now, std::string(32, 'p')));
  EXPECT_EQ(to_clients.back().message.need_program().sha256(), std::string(32, 'p'));
  take(core->on_client_lost(now, kDriver1));
  EXPECT_EQ(core->need_program(now, std::string(32, 'p')).error().code, ErrorCode::kUnavailable);
}

TEST_F(HeadCoreTest, TrialsAreListedAndExplained) {
  hello();
  protocol::ClientMessage message;
  protocol::ExperimentUpdate& update = *message.mutable_experiment();
  update.set_experiment("digits");
  update.set_state("running");
  update.set_trials_total(3);
  protocol::TrialRow& row = *update.add_trials();
  row.set_trial_id("3f2a");
  row.set_status("stopped");
  row.set_reason("below the best third of rung 9");
  send(message);
  send(message);
  EXPECT_EQ(core->list_trials(now, {}).trials_size(), 1);
  EXPECT_EQ(core->list_trials(now, {}).total(), 3);
  EXPECT_THAT(*core->explain(now, "3f2a"), HasSubstr("below the best third of rung 9"));
  protocol::ClientMessage goodbye;
  goodbye.mutable_goodbye();
  send(goodbye);
  EXPECT_EQ(core->status(now).experiments(0).state(), "interrupted");
}

TEST_F(HeadCoreTest, TrialsAreListedByTheirTags) {
  hello();
  protocol::ClientMessage message;
  protocol::ExperimentUpdate& update = *message.mutable_experiment();
  update.set_experiment("digits");
  update.set_state("running");
  update.set_trials_total(9);
  for (const auto& [id, tags] : {std::pair<const char*, std::vector<const char*>>("t1", {"wide", "keep"}), {"t2", {"wide"}}, {"t3", {}}}) {
    protocol::TrialRow& row = *update.add_trials();
    row.set_trial_id(id);
    row.set_name(std::string("name of ") + id);
    for (const char* tag : tags) row.add_tags(tag);
  }
  send(message);
  const auto listed = [&](std::vector<std::string> tags, int limit = 0) {
    v1::ListRequest request;
    request.set_limit(limit);
    for (const std::string& tag : tags) request.add_tags(tag);
    return core->list_trials(now, request);
  };
  EXPECT_EQ(listed({}).total(), 9);
  EXPECT_EQ(listed({"wide"}).trials_size(), 2);
  EXPECT_EQ(listed({"wide"}, 1).trials_size(), 1);
  EXPECT_EQ(listed({"wide"}, 1).total(), 2);
  ASSERT_EQ(listed({"wide", "keep"}).trials_size(), 1);
  EXPECT_EQ(listed({"keep"}).trials(0).name(), "name of t1");
  EXPECT_EQ(listed({"keep"}).trials(0).tags_size(), 2);
  EXPECT_EQ(listed({"narrow"}).total(), 0);
  EXPECT_THAT(*core->explain(now, "name of t1"), ::testing::AllOf(HasSubstr("trial t1 (name of t1) of digits"), HasSubstr("tags: wide, keep")));
}

TEST_F(HeadCoreTest, WhatIsAskedOfAnExperimentGoesToTheDriverThatRunsIt) {
  hello();
  protocol::ClientMessage message;
  protocol::ExperimentUpdate& update = *message.mutable_experiment();
  update.set_experiment("digits_2026");
  update.set_state("running");
  for (const auto& [id, status] : {std::pair("3f2a90c1", "running"), std::pair("3f000000", "stopped"), std::pair("aa000000", "waiting")}) {
    protocol::TrialRow& row = *update.add_trials();
    row.set_trial_id(id);
    row.set_status(status);
  }
  send(message);
  v1::ControlExperimentRequest request;
  v1::ControlExperimentReply reply;
  request.set_act("pause");
  const auto refusal = [&](const std::string& experiment, const std::string& trial) {
    request.set_experiment(experiment);
    request.set_trial(trial);
    const auto told = core->control_experiment(now, request, reply);
    return told ? Error{ErrorCode::kInternal, "it was taken"} : told.error();
  };
  request.set_experiment("digits");
  take(*core->control_experiment(now, request, reply));
  EXPECT_EQ(to_clients.back().session, kDriver1);
  EXPECT_EQ(to_clients.back().message.request().experiment(), "digits_2026");
  EXPECT_EQ(to_clients.back().message.request().trial(), "");
  EXPECT_EQ(to_clients.back().message.request().act(), "pause");
  message.mutable_experiment()->set_state("paused");
  send(message);
  request.set_act("resume");
  request.set_trial("3f2");
  take(*core->control_experiment(now, request, reply));
  EXPECT_EQ(to_clients.back().message.request().trial(), "3f2a90c1") << "one that is paused has not ended";
  EXPECT_EQ(reply.trial(), "3f2a90c1");
  EXPECT_EQ(refusal("moon", "").code, ErrorCode::kNotFound);
  EXPECT_EQ(refusal("digits", "3f").code, ErrorCode::kInvalidArgument) << "two start so";
  EXPECT_EQ(refusal("digits", "3f00").code, ErrorCode::kNotFound) << "it has ended";
  EXPECT_EQ(refusal("digits", "bb").code, ErrorCode::kNotFound);
  EXPECT_EQ(refusal("", "").code, ErrorCode::kNotFound) << "no name is no name";
  request.set_act("add");
  EXPECT_THAT(refusal("digits", "3f2").message, HasSubstr("added to an experiment, not to a trial"));
  EXPECT_THAT(refusal("digits", "").message, HasSubstr("config: expected a JSON object"));
  request.set_config(std::string(70'000, ' '));
  EXPECT_THAT(refusal("digits", "").message, HasSubstr("at most 65536"));
  request.set_config(R"({"lr":0.5})");
  request.set_request_id("mine");
  take(*core->control_experiment(now, request, reply, "ann"));
  EXPECT_EQ(to_clients.back().message.request().act(), "add");
  EXPECT_EQ(to_clients.back().message.request().config(), R"({"lr":0.5})");
  EXPECT_EQ(to_clients.back().message.request().request_id(), "ann/mine") << "an id is its token's own";
  request.set_act("explode");
  EXPECT_THAT(refusal("digits", "").message, HasSubstr("expected stop, pause, resume or add, got \"explode\""));
  request.set_act("stop");
  take(core->on_client_lost(now, kDriver1));
  EXPECT_EQ(refusal("digits", "").code, ErrorCode::kUnavailable);
}

TEST_F(HeadCoreTest, AStreamWithoutHelloGetsNothingDone) {
  join(kNode1, 1, 8);
  spawn(1);
  EXPECT_TRUE(starts().empty());
  EXPECT_TRUE(to_clients.empty());
}

TEST_F(HeadCoreTest, AnOlderRegistrationOfTheSameWorkerIsFenced) {
  now += 10s;
  join(kNode1, 1, 4);
  auto older = registration(1, 4);
  older.mutable_register_()->set_sent_boot_ns(now.time_since_epoch().count() - 1000);
  take(core->on_node_message(now, NodeSession{3}, older));
  EXPECT_EQ(closed_nodes, std::vector{NodeSession{3}});
  heartbeat(kNode1);
  EXPECT_EQ(acks(), 1u);
}

}  // namespace
}  // namespace volador::head
