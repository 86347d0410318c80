// A head that was killed and restarted.
#include "head/kernel/core.h"

#include <gmock/gmock.h>

#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

using testing::HasSubstr;

class HeadRestartTest : public CoreFixture {};

TEST_F(HeadRestartTest, ARestartedHeadRestartsNothingThatIsReportedToRun) {
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
  EXPECT_EQ(core->lists().status(now).used().at("gpus"), kUnit / 2);
}

TEST_F(HeadRestartTest, ARestartedHeadPlacesNothingAgainBeforeItsWindowEnds) {
  join(kNode1, 1, 2);
  join(kNode2, 2, 2);
  hello();
  spawn(1, 1, 1);
  ready(kNode1, last_start());
  restart_head();
  clear();
  take(core->on_node_message(now, NodeSession{6}, registration(2, 2)));
  hello(ClientSession{5});
  const std::string reason = *core->explainer().text(now, to_string(test_id<ActorId>(1)));
  EXPECT_THAT(reason, HasSubstr("after a head restart: n1 has 10.0 s to come back"));
  pass(9900ms, {NodeSession{6}});
  EXPECT_TRUE(starts().empty());
  pass(200ms, {NodeSession{6}});
  ASSERT_EQ(starts().size(), 1u);
  EXPECT_EQ(starts()[0].epoch(), 2u);
}

TEST_F(HeadRestartTest, AnAcknowledgedSpawnSurvivesTheHead) {
  hello();
  spawn(1);
  EXPECT_FALSE(last_reply().has_error());
  restart_head();
  hello(ClientSession{5});
  join(kNode1, 1, 1);
  ASSERT_EQ(starts().size(), 1u);
  EXPECT_EQ(starts()[0].spec().class_name(), "Counter");
}

TEST_F(HeadRestartTest, ADriverThatDiedWithTheHeadIsGoneAfterTheWindow) {
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

TEST_F(HeadRestartTest, AKilledActorIsStaleAfterARestartOfTheHead) {
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

TEST_F(HeadRestartTest, AGracePeriodOutlivesARestartOfTheHead) {
  join(kNode1, 1, 1);
  hello();
  spawn(1);
  const auto start = last_start();
  ready(kNode1, start);
  auto kill = kill_message(1);
  kill.mutable_kill()->set_grace_ms(20'000);
  send(kill);
  ASSERT_EQ(ends().size(), 1u);
  EXPECT_EQ(ends().back().grace_ms(), 20'000);
  restart_head();
  auto again = registration(1, 1);
  fill_report(*again.mutable_register_()->add_hosts(), start);
  take(core->on_node_message(now, NodeSession{5}, again));
  EXPECT_EQ(last_registered().stale_hosts_size(), 0);  // It goes on, with its lease.
  ASSERT_EQ(ends().size(), 2u);
  EXPECT_EQ(ends().back().grace_ms(), 20'000);
  EXPECT_EQ(ends().back().cause().kind(), protocol::DeathCause::KILLED);
  EXPECT_EQ(cpus_used(), kUnit);
  ended(NodeSession{5}, start, protocol::DeathCause::KILLED);
  EXPECT_EQ(cpus_used(), 0);
}

TEST_F(HeadRestartTest, ALateReadyReportDoesNotShortenTheGracePeriod) {
  join(kNode1, 1, 1);
  hello();
  spawn(1);
  const auto start = last_start();
  auto kill = kill_message(1);
  kill.mutable_kill()->set_grace_ms(20'000);
  send(kill);
  ready(kNode1, start);
  for (const auto& end : ends()) EXPECT_EQ(end.grace_ms(), 20'000);
}

TEST_F(HeadRestartTest, ABadRowIsLeftOutAndNothingElse) {
  join(kNode1, 1, 1);
  hello();
  spawn(1);
  rows[{"actors", "not an id"}] = "\xff\xff";
  rows[{"actor_states", raw(test_id<ActorId>(77))}] = "";
  rows[{"nodes", "x"}] = "\x0a\xff";
  restart_head();
  EXPECT_EQ(core->lists().status(now).actors_by_state().at("starting"), 1);
}

}  // namespace
}  // namespace volador::head
