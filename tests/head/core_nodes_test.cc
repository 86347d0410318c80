// Node states at the head: silent, lost, given up, returned, drained.
#include "head/kernel/core.h"

#include <gmock/gmock.h>

#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

using testing::HasSubstr;

class HeadNodesTest : public CoreFixture {};

TEST_F(HeadNodesTest, ALostConnectionPlacesNothingNewAndRestartsNothingBeforeTheLeaseEnds) {
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

TEST_F(HeadNodesTest, ANodeThatIsGivenUpIsFencedAndItsHostsAreStaleWhenItReturns) {
  join(kNode1, 1, 4);
  join(kNode2, 2, 4);
  hello();
  spawn(1, 1, 1);
  const auto first = last_start();
  ready(kNode1, first);
  pass(4100ms, {kNode2});  // Frozen: silent, but its connection is open.
  EXPECT_EQ(closed_nodes, std::vector{kNode1});
  EXPECT_EQ(last_start().epoch(), 2u);
  const size_t before = acks();
  heartbeat(kNode1);  // A message that was left in its socket.
  EXPECT_EQ(acks(), before);
  auto again = registration(1, 4);
  fill_report(*again.mutable_register_()->add_hosts(), first);
  take(core->on_node_message(now, NodeSession{3}, again));
  ASSERT_EQ(last_registered().stale_hosts_size(), 1);
  EXPECT_EQ(last_registered().stale_hosts(0), first.host_id());
  EXPECT_EQ(info(1).node_name(), "n2");
}

TEST_F(HeadNodesTest, ASilentNodeIsSuspectUntilItIsHeard) {
  join(kNode1, 1, 1);
  hello();
  pass(1600ms);
  spawn(1);
  EXPECT_EQ(info(1).reason(), "node n1 is suspect (silent); no other could hold it");
  heartbeat(kNode1);
  EXPECT_EQ(state(1), protocol::STARTING);
}

TEST_F(HeadNodesTest, TheHeadsOwnPauseIsHeldAgainstNobody) {
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

TEST_F(HeadNodesTest, ANodeHasTheMeasuresThatItsWorkerTellsAndNoOthers) {
  join(kNode1, 1, 1);
  protocol::WorkerMessage message;
  protocol::MachineUsage& machine = *message.mutable_heartbeat()->mutable_usage()->mutable_machine();
  machine.set_disk_read_bytes_per_s(0);
  machine.set_cpu_temperature_celsius(61.5);
  protocol::FileSystemUsage& root = *machine.add_file_systems();
  root.set_path("/");
  root.add_uses("logs");
  root.set_total_bytes(100);
  root.set_free_bytes(40);
  take(core->on_node_message(now, kNode1, message));
  const auto node = core->lists().nodes(now, {}).nodes(0);
  EXPECT_TRUE(node.has_disk_read_bytes_per_s());
  EXPECT_EQ(node.cpu_temperature_celsius(), 61.5);
  EXPECT_FALSE(node.has_cpu_power_watts());
  ASSERT_EQ(node.file_systems_size(), 1);
  EXPECT_EQ(node.file_systems(0).uses(0), "logs");
  EXPECT_EQ(node.file_systems(0).free_bytes(), 40);
  take(core->on_node_lost(now, kNode1));
  pass(60s, {});
  EXPECT_EQ(core->lists().nodes(now, {}).nodes(0).file_systems_size(), 0)
      << "what a dead node measured says nothing of now";
}

TEST_F(HeadNodesTest, AReconnectConfirmsWhatRunsAndRepeatsAnOrderThatWasLost) {
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
  take(core->on_node_message(now, NodeSession{3}, again));  // Repeated: no effect.
  EXPECT_EQ(starts().size(), 1u);
  EXPECT_EQ(state(1), protocol::ALIVE);
}

TEST_F(HeadNodesTest, AHostThatIsMissingAfterAReconnectMaySayWhyItEnded) {
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

TEST_F(HeadNodesTest, WhatARestartedWorkerLeftBehindWaitsForItsOldLease) {
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

TEST_F(HeadNodesTest, ANewWorkerHasNoSayInWhatItsPredecessorLeftBehind) {
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
  EXPECT_TRUE(ends().empty());  // A response would claim that the host is gone, which is not known.
  ended(NodeSession{3}, first);
  EXPECT_TRUE(starts().empty());
  pass(2600ms, {NodeSession{3}});
  EXPECT_EQ(starts().size(), 1u);
}

TEST_F(HeadNodesTest, ASecondNodeOfANameIsRefusedAndTheFirstNamed) {
  join(kNode1, 1, 4);
  auto twin = registration(2, 4);
  twin.mutable_register_()->set_name("n1");
  take(core->on_node_message(now, kNode2, twin));
  EXPECT_THAT(last_refusal(), HasSubstr("node name \"n1\" is taken by node " + short_id(test_id<NodeId>(1))));
  EXPECT_EQ(closed_nodes, std::vector{kNode2});
}

TEST_F(HeadNodesTest, AnotherVersionOfTheProtocolIsRefusedByName) {
  auto other = registration(1, 4);
  other.mutable_register_()->set_protocol_version(2);
  take(core->on_node_message(now, kNode1, other));
  EXPECT_THAT(last_refusal(), HasSubstr("install the same version on both"));
}

TEST_F(HeadNodesTest, ALeavingNodesActorsAreAtOncePlacedElsewhere) {
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
  EXPECT_EQ(core->lists().nodes(now, {}).nodes(0).state(), "dead");
}

TEST_F(HeadNodesTest, NothingIsPlacedOnANodeThatStops) {
  join(kNode1, 1, 1);
  hello();
  spawn(1, 1, 1);
  const auto first = last_start();
  ready(kNode1, first);
  protocol::WorkerMessage stopping;
  stopping.mutable_stopping();
  take(core->on_node_message(now, kNode1, stopping));
  EXPECT_EQ(core->lists().nodes(now, {}).nodes(0).state(), "stopping");
  ended(kNode1, first, protocol::DeathCause::NODE_LOST);
  EXPECT_EQ(state(1), protocol::RESTARTING) << "it is not sent back to the node that ended it";
  EXPECT_THAT(info(1).reason(), HasSubstr("node n1 is stopping"));
  auto again = registration(1, 1);  // Its stream broke meanwhile.
  again.mutable_register_()->set_stopping(true);
  take(core->on_node_message(now, NodeSession{3}, again));
  EXPECT_EQ(state(1), protocol::RESTARTING);
  again.mutable_register_()->set_stopping(false);  // A new worker.
  again.mutable_register_()->set_incarnation("another");
  take(core->on_node_message(now, NodeSession{4}, again));
  EXPECT_EQ(info(1).node_name(), "n1");
}

TEST_F(HeadNodesTest, AProgramThatCannotRunOnANodeIsTriedOnAnother) {
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

TEST_F(HeadNodesTest, DrainPlacesNothingNewAndSurvivesARestartOfTheHead) {
  join(kNode1, 1, 2);
  hello();
  take(*drain("n1", false));
  EXPECT_EQ(drain("n9", false).error().code, ErrorCode::kNotFound);
  spawn(1);
  EXPECT_THAT(info(1).reason(), HasSubstr("node n1 is draining"));
  restart_head();
  take(core->on_node_message(now, NodeSession{5}, registration(1, 2)));
  EXPECT_EQ(core->lists().nodes(now, {}).nodes(0).state(), "draining");
  take(*drain("n1", true));
  EXPECT_EQ(starts().size(), 1u);
}

TEST_F(HeadNodesTest, WatchersOfAnActorSeeThatItsNodeLeaves) {
  join(kNode1, 1, 2);
  join(kNode2, 2, 2);
  hello();
  spawn(1);
  ASSERT_EQ(info(1).node_name(), "n1");
  EXPECT_FALSE(info(1).node_leaves());
  take(*drain("n2", false));
  EXPECT_FALSE(info(1).node_leaves());
  take(*drain("n1", false));
  EXPECT_TRUE(info(1).node_leaves());
  take(*drain("n1", true));
  EXPECT_FALSE(info(1).node_leaves());
  protocol::WorkerMessage stopping;
  stopping.mutable_stopping();
  take(core->on_node_message(now, kNode1, stopping));
  EXPECT_TRUE(info(1).node_leaves());
}

TEST_F(HeadNodesTest, AnOlderRegistrationOfTheSameWorkerIsFenced) {
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
