#include "head/kernel/core.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <regex>

#include "head/actors/actor_history.h"
#include "head/kernel/wire.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
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
  EXPECT_THAT(refused([](auto& spec) { spec.add_opening()->set_arguments(std::string((16 << 20) + 1, 'x')); }),
              HasSubstr("pass large values in calls"));
}

TEST_F(HeadCoreTest, RefusesAnActorWhoseDescriptionDoesNotFitIntoARow) {
  join(kNode1, 1, 2);
  hello();
  auto message = spawn_message(1);
  message.mutable_spawn()->mutable_spec()->add_concurrency_groups()->set_name(std::string(2 << 20, 'g'));
  send(message);
  EXPECT_EQ(last_reply().error().code(), static_cast<int>(ErrorCode::kInvalidArgument));
  EXPECT_THAT(last_reply().error().message(), HasSubstr("without its arguments"));
  EXPECT_FALSE(core->has_accepted(message));
  send(spawn_message(2));
  EXPECT_TRUE(core->has_accepted(spawn_message(2))) << "a repeated request is known";
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
  ready(kNode1, first);  // Late: from an epoch that has ended.
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
  const auto told = [&] { return *core->explainer().text(now, to_string(test_id<ActorId>(1))); };
  EXPECT_THAT(told(), HasSubstr("      made  pending\n"));
  EXPECT_THAT(told(), HasSubstr("+0.00 s  starting on node n1, epoch 1: the fullest node that it fits on\n"));
  EXPECT_THAT(told(), HasSubstr("+1.50 s  alive on node n1, epoch 1\n"));
  ended(kNode1, last_start());
  EXPECT_THAT(told(), HasSubstr("+1.50 s  restarting: " + describe(info(1).cause()).text()));
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
  EXPECT_EQ(starts().size(), 2u);  // The first restart is immediate.
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
  EXPECT_THAT(last_reply().error().message(),
              HasSubstr("actor Counter asks for cpus 4; the largest node (n1) has 2. It could never start."));
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
  EXPECT_EQ(info(3).reason(),
            "waits for cpus 1: 1 of 1 in use on the only node; behind 1 earlier request, actor Counter (02000000)");
  EXPECT_THAT(*core->explainer().text(now, to_string(test_id<ActorId>(3))),
              HasSubstr("behind 1 earlier request, actor Counter (02000000)"));
}

TEST_F(HeadCoreTest, RowsAndExplanationsHaveTheirReasonsAsData) {
  join(kNode1, 1, 1);
  hello();
  spawn(1);
  spawn(2);
  const auto chinese = [](const auto& row) { return reason_of(row).text(Language::kChinese); };
  const v1::ListActorsReply actors = core->lists().actors(now, {});
  const std::string waits = "等待 1 CPU：唯一的节点已用 1，共 1";
  EXPECT_TRUE(std::any_of(actors.actors().begin(), actors.actors().end(),
                          [&](const v1::Actor& row) { return chinese(row) == waits; }));
  EXPECT_EQ(chinese(core->lists().queue(now, {}).queue(0)), waits);
  // Structured data and text agree line by line.
  const auto explained = core->explainer().explain(now, to_string(test_id<ActorId>(2)));
  std::string text;
  for (const std::string& why : explained->why()) text += Reason::from_json(why)->text() + "\n";
  EXPECT_EQ(text, std::regex_replace(explained->text(), std::regex("(^|\n) +"), "$1"));
  EXPECT_THAT(text, testing::AllOf(HasSubstr("waits for cpus 1: 1 of 1 in use on the only node"),
                                   HasSubstr("what it went through:\nmade  pending\n")));
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
  EXPECT_THAT(last_reply().error().message(),
              HasSubstr("actor name \"hits\" is held by actor " + short_id(test_id<ActorId>(1))));
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
  EXPECT_GE(ends().size(), 2u);  // Repeated until answered.
  ended(kNode1, start, protocol::DeathCause::KILLED);
  EXPECT_EQ(cpus_used(), 0);
}

TEST_F(HeadCoreTest, AnOperatorKillsAnActorByNameOrStartOfItsId) {
  join(kNode1, 1, 2);
  hello();
  auto named = spawn_message(7);
  named.mutable_spawn()->mutable_spec()->set_name("embedder");
  named.mutable_spawn()->mutable_spec()->set_max_restarts(3);
  send(named);
  const auto first = last_start();
  ready(kNode1, first);

  ActorRequests::Killed reply;
  auto killed = kill("embedder", true, reply, "t-7f21c0");
  ASSERT_TRUE(killed) << killed.error().message;
  take(std::move(*killed));
  EXPECT_TRUE(reply.restarts);
  EXPECT_EQ(reply.actor, test_id<ActorId>(7));
  EXPECT_EQ(state(7), protocol::RESTARTING);
  ended(kNode1, first, protocol::DeathCause::KILLED);
  ready(kNode1, last_start());
  EXPECT_EQ(state(7), protocol::ALIVE);

  const std::string start_of_id = to_string(test_id<ActorId>(7)).substr(0, 8);
  killed = kill(start_of_id, false, reply, "t-7f21c0");
  ASSERT_TRUE(killed) << killed.error().message;
  take(std::move(*killed));
  EXPECT_FALSE(reply.restarts);
  EXPECT_EQ(state(7), protocol::DEAD);
  EXPECT_THAT(core->explainer().text(now, start_of_id).value(), HasSubstr("killed on request: by t-7f21c0"));

  const auto again = kill(start_of_id, false, reply, "t-7f21c0");
  EXPECT_EQ(again.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(again.error().message, HasSubstr("there is nothing to kill"));
}

TEST_F(HeadCoreTest, KillRefusesWhatIsNoActorAndNamesTheCommandForIt) {
  join(kNode1, 1, 2);
  hello();
  spawn(1);
  ready(kNode1, last_start());
  ActorRequests::Killed reply;
  EXPECT_EQ(kill("n1", false, reply).error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(kill("n1", false, reply).error().message, HasSubstr("volador drain"));
  EXPECT_EQ(kill("moon", false, reply).error().code, ErrorCode::kNotFound);
  // Without restarts left it ends permanently.
  auto killed = kill(to_string(test_id<ActorId>(1)), true, reply);
  ASSERT_TRUE(killed) << killed.error().message;
  take(std::move(*killed));
  EXPECT_FALSE(reply.restarts);
  EXPECT_EQ(state(1), protocol::DEAD);
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
  EXPECT_EQ(starts().size(), 1u);  // Not before the previous host has ended.
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
  EXPECT_EQ(core->lists().status(now).actors_by_state().at("alive"), 1);
  EXPECT_EQ(core->lists().status(now).drivers(), 0);
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

TEST_F(HeadCoreTest, DeadActorsAreForgottenBeyondTheLimit) {
  options.limits.dead_actors = 2;
  restart_head();
  join(kNode1, 1, 1);
  hello();
  for (uint8_t actor = 1; actor <= 5; ++actor) {
    spawn(actor);
    ended(kNode1, last_start());
  }
  EXPECT_EQ(core->lists().status(now).actors_by_state().at("dead"), 2);
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
  EXPECT_EQ(need_program(std::string(32, 'p')).error().code, ErrorCode::kNotFound);
  hello();
  take(*need_program(std::string(32, 'p')));
  EXPECT_EQ(to_clients.back().message.need_program().sha256(), std::string(32, 'p'));
  take(core->on_client_lost(now, kDriver1));
  EXPECT_EQ(need_program(std::string(32, 'p')).error().code, ErrorCode::kUnavailable);
}

TEST_F(HeadCoreTest, AStreamWithoutHelloGetsNothingDone) {
  join(kNode1, 1, 8);
  spawn(1);
  EXPECT_TRUE(starts().empty());
  EXPECT_TRUE(to_clients.empty());
}

}  // namespace
}  // namespace volador::head
