// Nodes, clients, experiments and the texts of messages.
#include <gmock/gmock.h>

#include "head/clients/client_table.h"
#include "head/experiments/experiment_table.h"
#include "head/kernel/wire.h"
#include "head/nodes/node_table.h"

namespace volador::head {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr BootTime kTablesNow{1000s};

protocol::Register registration(uint8_t number, const std::string& name, const std::string& incarnation = "w",
                                int64_t sent = 10) {
  protocol::Register message;
  message.set_node_id(raw(NodeId{{number}}));
  message.set_name(name);
  message.set_incarnation(incarnation);
  message.set_sent_boot_ns(sent);
  return message;
}

TEST(NodeTableTest, TellsWhatARegistrationMeans) {
  NodeTable nodes{Limits{}};
  const auto first = registration(1, "a");
  EXPECT_EQ(*nodes.check(NodeSession{1}, first), NodeTable::Verdict::kNew);
  EXPECT_EQ(nodes.admit(kTablesNow, NodeSession{1}, first, {}), std::nullopt);
  EXPECT_EQ(*nodes.check(NodeSession{1}, first), NodeTable::Verdict::kRepeated);
  EXPECT_EQ(*nodes.check(NodeSession{2}, registration(1, "a", "w", 11)), NodeTable::Verdict::kReconnected);
  EXPECT_EQ(*nodes.check(NodeSession{2}, registration(1, "a", "w", 9)), NodeTable::Verdict::kOlder);
  EXPECT_EQ(*nodes.check(NodeSession{2}, registration(1, "a", "x", 1)), NodeTable::Verdict::kRestarted);
  EXPECT_EQ(nodes.admit(kTablesNow, NodeSession{2}, registration(1, "a", "w", 11), {}), NodeSession{1});
  EXPECT_EQ(nodes.find(NodeSession{1}), nullptr);
  EXPECT_EQ(nodes.lost(NodeSession{1}), nullptr);
  EXPECT_EQ(nodes.lost(NodeSession{2})->state, NodeState::kSuspect);
  nodes.mark_dead(*nodes.find(NodeId{{1}}), Reason::said("silent"), true);
  nodes.mark_dead(*nodes.find(NodeId{{1}}), Reason::said("again"), true);
  EXPECT_EQ(nodes.find(NodeId{{1}})->why_dead.text(), "silent");
  EXPECT_EQ(*nodes.check(NodeSession{3}, first), NodeTable::Verdict::kNew);
  nodes.check_invariants();
}

TEST(NodeTableTest, ANameIsFreeWhenItsNodeIsDead) {
  NodeTable nodes{Limits{}};
  nodes.admit(kTablesNow, NodeSession{1}, registration(1, "a"), {});
  EXPECT_THAT(nodes.check(NodeSession{2}, registration(2, "a")).error().message,
              HasSubstr("node name \"a\" is taken by node 01000000"));
  nodes.mark_dead(*nodes.find(NodeId{{1}}), Reason::said("silent"), true);
  EXPECT_TRUE(nodes.check(NodeSession{2}, registration(2, "a")));
  nodes.check_invariants();
}

TEST(NodeTableTest, CountsLostNodesUntilAMemberHasTheirName) {
  NodeTable nodes{Limits{}};
  for (uint8_t number = 1; number <= 3; ++number)
    nodes.admit(kTablesNow, NodeSession{number}, registration(number, "n" + std::to_string(number)), {});
  nodes.mark_dead(*nodes.find(NodeId{{1}}), Reason::said("silent"), true);
  nodes.mark_dead(*nodes.find(NodeId{{2}}), Reason::said("it was stopped"), false);
  EXPECT_EQ(nodes.lost_nodes(), 1u) << "a stopped node is not lost";
  nodes.admit(kTablesNow, NodeSession{4}, registration(4, "n1"), {});
  EXPECT_EQ(nodes.lost_nodes(), 0u) << "another node took the place of the lost one";
  nodes.check_invariants();
}

TEST(NodeTableTest, BadRegistrationsAreRefusedWithTheRule) {
  Limits limits;
  limits.nodes = 1;
  NodeTable nodes{limits};
  EXPECT_THAT(nodes.check(NodeSession{1}, registration(1, "")).error().message,
              HasSubstr("node name: expected 1 to 256 bytes"));
  EXPECT_THAT(nodes.check(NodeSession{1}, {}).error().message, HasSubstr("node_id takes 16 bytes"));
  nodes.admit(kTablesNow, NodeSession{1}, registration(1, "a"), {});
  EXPECT_EQ(nodes.check(NodeSession{2}, registration(2, "b")).error().code, ErrorCode::kUnavailable);
}

TEST(NodeTableTest, TheOldestDeadNodesAreForgotten) {
  Limits limits;
  limits.dead_nodes = 2;
  NodeTable nodes{limits};
  for (uint8_t number = 1; number <= 4; ++number) {
    nodes.admit(kTablesNow, NodeSession{number}, registration(number, "n" + std::to_string(number)), {});
    nodes.mark_dead(*nodes.find(NodeId{{number}}), Reason::said("silent"), true);
  }
  EXPECT_EQ(nodes.all().size(), 2u);
  EXPECT_EQ(nodes.resolve("n1").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(nodes.resolve("n4"));
  nodes.check_invariants();
}

TEST(ClientTableTest, AWatchEndsWithItsClient) {
  ClientTable clients{Limits{}};
  protocol::Hello hello;
  hello.set_driver_id(raw(DriverId{{1}}));
  EXPECT_EQ(*clients.connect(ClientSession{1}, hello), std::nullopt);
  const ClientRef stream{.session = ClientSession{1}, .host = {}};
  const ClientRef host{.session = {}, .host = HostId{{5}}};
  EXPECT_TRUE(clients.watch(stream, ActorId{{1}}));
  EXPECT_TRUE(clients.watch(stream, ActorId{{1}}));
  EXPECT_TRUE(clients.watch(host, ActorId{{1}}));
  EXPECT_EQ(clients.watchers(ActorId{{1}}).size(), 2u);
  EXPECT_NE(clients.disconnect(ClientSession{1}), nullptr);
  EXPECT_EQ(clients.disconnect(ClientSession{1}), nullptr);
  EXPECT_EQ(clients.watchers(ActorId{{1}}).size(), 1u);
  clients.forget(ActorId{{1}});
  EXPECT_TRUE(clients.watched_by(host).empty());
  clients.check_invariants();
}

TEST(ClientTableTest, ANewStreamOfADriverReplacesTheOld) {
  ClientTable clients{Limits{}};
  protocol::Hello hello;
  hello.set_driver_id(raw(DriverId{{1}}));
  clients.connect(ClientSession{1}, hello);
  EXPECT_EQ(*clients.connect(ClientSession{2}, hello), ClientSession{1});
  EXPECT_EQ(*clients.connect(ClientSession{2}, hello), std::nullopt);
  EXPECT_EQ(clients.find(ClientSession{1}), nullptr);
  clients.check_invariants();
  clients.remove(DriverId{{1}});
  clients.remove(DriverId{{1}});
  clients.check_invariants();
}

TEST(ClientTableTest, WatchesHaveALimit) {
  Limits limits;
  limits.watches = 1;
  ClientTable clients{limits};
  const ClientRef client{.session = ClientSession{1}, .host = {}};
  EXPECT_TRUE(clients.watch(client, ActorId{{1}}));
  EXPECT_TRUE(clients.watch(client, ActorId{{1}}));
  EXPECT_FALSE(clients.watch(client, ActorId{{2}}));
  clients.check_invariants();
}

TEST(ExperimentTableTest, KeepsTheNewestRowsWithinItsLimits) {
  Limits limits;
  limits.trials = 2;
  limits.experiments = 2;
  limits.trial_bytes = 10;
  ExperimentTable experiments{limits};
  protocol::ExperimentUpdate update;
  for (const char* name : {"a", "b", "c"}) {
    update.set_experiment(name);
    update.clear_trials();
    for (int trial = 0; trial < 3; ++trial) {
      protocol::TrialRow& row = *update.add_trials();
      row.set_trial_id("t" + std::to_string(trial));
      row.set_status("running");
      row.set_config_json("{\"lr\": 0.00012345}");
    }
    experiments.update(DriverId{{1}}, update);
    experiments.update(DriverId{{1}}, update);
  }
  EXPECT_EQ(experiments.all().size(), 2u);
  EXPECT_FALSE(experiments.all().contains("a"));
  const Experiment& kept = experiments.all().at("c");
  EXPECT_EQ(kept.trials.size(), 2u);
  EXPECT_EQ(kept.by_status.at("running"), 2);
  EXPECT_EQ(kept.trials.at("t0").config_json(), "{\"lr\": 0.0…");
  experiments.check_invariants();
}

TEST(ExperimentTableTest, TrialsAreFoundByTheirNames) {
  Limits limits;
  limits.name_bytes = 10;
  ExperimentTable experiments{limits};
  protocol::ExperimentUpdate update;
  update.set_experiment("digits");
  update.set_state("running");
  const std::pair<const char*, const char*> trials[] = {{"3f2a90c1", "7_lr=0.1"},
                                                        {"7_lr0000", "wide"},
                                                        {"aa000000", "twin"},
                                                        {"bb000000", "twin"},
                                                        {"cc000000", "much too long a name"}};
  for (const auto& [id, name] : trials) {
    protocol::TrialRow& row = *update.add_trials();
    row.set_trial_id(id);
    row.set_status("running");
    row.set_name(name);
    for (int i = 0; i < 40; ++i) row.add_tags("t" + std::to_string(i) + "-0123456789");
  }
  experiments.update(DriverId{{1}}, update);
  const Experiment& digits = experiments.all().at("digits");
  EXPECT_EQ(ExperimentTable::resolve_trial(digits, "7_lr=0.1").value()->trial_id(), "3f2a90c1");
  EXPECT_EQ(ExperimentTable::resolve_trial(digits, "7_lr").value()->trial_id(), "7_lr0000") << "only whole names count";
  EXPECT_EQ(experiments.find_trials("twin", ExperimentTable::Match::kWhole).size(), 2u);
  EXPECT_TRUE(experiments.find_trials("7_lr=", ExperimentTable::Match::kWhole).empty());
  EXPECT_EQ(experiments.find_trials("7_", ExperimentTable::Match::kStart).size(), 1u);
  EXPECT_EQ(ExperimentTable::resolve_open_trial(digits, "wide").value(), "7_lr0000");
  EXPECT_EQ(ExperimentTable::resolve_open_trial(digits, "twin").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(ExperimentTable::resolve_open_trial(digits, "").error().code, ErrorCode::kNotFound);
  const protocol::TrialRow& cut = digits.trials.at("cc000000");
  EXPECT_EQ(cut.name(), "much too l…");
  EXPECT_EQ(cut.tags_size(), 32);
  EXPECT_EQ(cut.tags(31), "t31-012345…");
}

TEST(ExperimentTableTest, KeepsTheSchedulersRungsUntilNewOnesCome) {
  ExperimentTable experiments{Limits()};
  protocol::ExperimentUpdate update;
  update.set_experiment("a");
  update.set_scheduler("ASHA");
  protocol::SchedulerRung& rung = *update.add_rungs();
  rung.set_milestone(9);
  for (int i = 0; i < ExperimentTable::kRungMembersMax + 5; ++i) rung.add_members()->set_trial("t");
  experiments.update(DriverId{{1}}, update);
  update.clear_rungs();
  update.clear_scheduler();
  experiments.update(DriverId{{1}}, update);
  const Experiment& kept = experiments.all().at("a");
  EXPECT_EQ(kept.scheduler, "ASHA");
  ASSERT_EQ(kept.rungs.size(), 1u);
  EXPECT_EQ(kept.rungs[0].milestone(), 9);
  EXPECT_EQ(kept.rungs[0].members_size(), ExperimentTable::kRungMembersMax);
}

TEST(WireTest, ResourcesAreCheckedFieldByField) {
  protocol::ResourceMap map;
  (*map.mutable_amounts())["gpus"] = kUnit * 3 / 2;
  EXPECT_THAT(resources_from(map, {}).error().message,
              HasSubstr("resources.gpus: expected a whole number above 1, got 1.5"));
  (*map.mutable_amounts())["gpus"] = -1;
  EXPECT_THAT(resources_from(map, {}).error().message, HasSubstr("resources.gpus: expected 0 to"));
  (*map.mutable_amounts())["gpus"] = kUnit / 2;
  EXPECT_EQ(resources_from(map, {})->get("gpus"), kUnit / 2);
  EXPECT_EQ(*resources_from(to_message(*resources_from(map, {})), {}), *resources_from(map, {}));
}

TEST(WireTest, ACauseReadsAsASentence) {
  auto cause = make_cause(protocol::DeathCause::SIGNALED, Reason());
  cause.set_signal(11);
  cause.set_node_name("gpu-1");
  EXPECT_EQ(describe(cause).text(), "killed by signal 11 (SIGSEGV) on node gpu-1");
  EXPECT_EQ(describe(cause).text(Language::kChinese), "被信号 11（SIGSEGV）终止（节点 gpu-1）");
}

TEST(WireTest, ACauseKeepsItsReasonAsData) {
  const auto cause = make_cause(protocol::DeathCause::KILLED, reason("cause.by", "t-7f21c0"));
  EXPECT_EQ(cause.message(), "by t-7f21c0");
  EXPECT_EQ(describe(cause).text(Language::kChinese), "按请求终止：由 t-7f21c0 发起");
}

TEST(WireTest, ACauseOfANewerWorkerIsSaidInItsOwnWords) {
  auto cause = make_cause(protocol::DeathCause::KILLED, Reason::said("the moon was full"));
  cause.set_why(R"(["cause.of_a_newer_worker", 3])");
  EXPECT_EQ(describe(cause).text(), "killed on request: the moon was full");
}

}  // namespace
}  // namespace volador::head
