// Views in lines of 80, 120 and 200 columns, with overlong names.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/commands/top_command.h"
#include "cli/render/cluster_view.h"
#include "cli/render/row_view.h"
#include "cli/render/table.h"
#include "cli/render/tune_view.h"
#include "runtime/language/text_width.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "tune/results/saved_run.h"

namespace volador::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Terminal wide_terminal(size_t columns, Language language = Language::kEnglish) {
  return Terminal({.columns = columns, .language = language});
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

v1::Node long_node(int number, const std::string& state, double busy) {
  v1::Node node;
  node.set_id("0123456789abcdef");
  node.set_name(fmt::format("rack-17-chassis-04-of-the-machine-hall-gpu-node-{:02}", number));
  node.set_state(state);
  node.set_address("2001:db8:1234:5678:9abc:def0:1234:5678:41234");
  (*node.mutable_total())["cpus"] = 1'280'000;
  (*node.mutable_used())["cpus"] = 202'500;
  (*node.mutable_total())["gpus"] = 80'000;
  (*node.mutable_used())["gpus"] = 75'000;
  (*node.mutable_total())["memory"] = int64_t{512} << 30;
  (*node.mutable_used())["memory"] = int64_t{100} << 30;
  (*node.mutable_labels())["zone"] = "eu-central-1a";
  (*node.mutable_labels())["disk"] = "nvme";
  node.set_cpu_cores_used(busy);
  node.set_actors(12);
  node.set_last_heard_ms_ago(250);
  for (int i = 0; i < 2; ++i) {
    v1::Gpu& gpu = *node.add_gpus();
    gpu.set_measured(true);
    gpu.set_utilization(0.25 + 0.5 * i);
  }
  return node;
}

v1::StatusReply long_status() {
  v1::StatusReply status;
  status.set_cluster_name("a-cluster-whose-name-takes-half-of-the-line-of-a-terminal");
  status.set_address("2001:db8:1234:5678:9abc:def0:1234:5678:6380");
  status.set_version("0.4.0");
  status.set_uptime_ms(200'000);
  *status.add_nodes() = long_node(1, "suspect", 3);
  *status.add_nodes() = long_node(2, "alive", 5);
  *status.add_nodes() = long_node(3, "alive", 90);
  for (const auto& node : status.nodes()) {
    for (const auto& [name, amount] : node.total()) (*status.mutable_total())[name] += amount;
    for (const auto& [name, amount] : node.used()) (*status.mutable_used())[name] += amount;
  }
  (*status.mutable_actors_by_state())["dead"] = 12;
  (*status.mutable_actors_by_state())["alive"] = 3;
  status.set_nodes_lost(2);
  for (int i = 0; i < 9; ++i) {
    v1::Experiment& experiment = *status.add_experiments();
    experiment.set_name(fmt::format("resnet-vs-vit_imagenet21k_learning_rate_sweep_2026-11-{:02}", 20 - i));
    experiment.set_state(i == 7 ? "running" : "finished");
    experiment.set_trials_total(400);
    (*experiment.mutable_trials_by_status())["stopped"] = 300;
    (*experiment.mutable_trials_by_status())["finished"] = 100;
  }
  return status;
}

v1::ListActorsReply long_actors() {
  v1::ListActorsReply reply;
  const auto add = [&](const std::string& name, const std::string& state, double cpus) {
    v1::Actor& actor = *reply.add_actors();
    actor.set_id(fmt::format("{:08x}99999999", reply.actors_size()));
    actor.set_class_name("company::project::reinforcement::PolicyLearnerWithReplay");
    actor.set_display("PolicyLearnerWithReplay");
    actor.set_name(name);
    actor.set_state(state);
    actor.set_node(long_node(1, "alive", 0).name());
    actor.set_isolation("process");
    actor.set_pid(4'194'303);
    (*actor.mutable_resources())["cpus"] = 40'000;
    (*actor.mutable_resources())["gpus"] = 10'000;
    if (cpus > 0) {
      actor.set_cpu_cores(cpus);
      actor.set_memory_bytes(int64_t{3} << 30);
    }
    if (state == "pending")
      actor.set_reason("no node has 1 GPU free: 16 of 16 in use; behind 3 requests of higher priority");
  };
  add("replay-buffer-of-the-first-learner-shard-07", "alive", 0.5);
  add("dead-one", "dead", 0);
  add("waiting-one", "pending", 0);
  add("busy-one", "alive", 3.5);
  reply.set_total(4);
  return reply;
}

v1::ListTrialsReply long_trials() {
  v1::ListTrialsReply reply;
  for (int i = 0; i < 3; ++i) {
    v1::Trial& trial = *reply.add_trials();
    trial.set_id(fmt::format("{:08x}", i + 1));
    trial.set_experiment("resnet-vs-vit_imagenet21k_learning_rate_sweep");
    trial.set_status(i == 0 ? "stopped" : i == 1 ? "waiting" : "running");
    trial.set_node(i == 1 ? "" : long_node(i, "alive", 0).name());
    trial.set_step(10 * i);
    (*trial.mutable_metrics())["validation/top_5_accuracy_of_the_ensemble"] = 0.123456;
    trial.set_config_json(
        R"({"optimizer": {"name": "adamw", "learning_rate_of_the_head": 0.00123, "weight_decay": 0.01}, "augmentation": "randaugment-m9-mstd0.5-inc1"})");
    trial.set_reason("others do better: rank 40 of 50 at step 10 with 0.1235; the best goes on, with 0.9815 (ASHA)");
  }
  reply.set_total(3);
  return reply;
}

nlohmann::json queue_page() {
  return nlohmann::json::parse(R"({"total": 5, "rows": [
    {"id": "52eceb10aaaaaaaa", "display": "placement group trainers", "name": "trainers-of-the-large-language-model-run-07", "kind": "group", "position": 1,
     "resources": {"gpus": 8, "cpus": 64}, "reason": "no nodes have 8 GPUs together", "since_ms": 1000, "priority": 5, "driver": "train_llm", "blocker": null},
    {"id": "11112222bbbbbbbb", "display": "Trial 3f2a90c1", "kind": "trial", "position": 2, "resources": {"cpus": 0.25}, "experiment": "vit-sweep", "since_ms": 61000,
     "reason": "node heron keeps its resources for placement group trainers",
     "blocker": {"kind": "group", "id": "52eceb10aaaaaaaa", "name": "trainers", "display": "placement group trainers", "why": "reserved"}}]})");
}

void expect_fits(const std::string& text, size_t columns) {
  for (const std::string& line : split_lines(text)) EXPECT_LE(display_width(line), columns) << line;
}

TEST(Fit, NoViewHasALineThatIsWiderThanTheTerminal) {
  for (const Language language : {Language::kEnglish, Language::kChinese}) {
    for (size_t columns = 40; columns <= 240; columns += 8) {
      const Terminal terminal = wide_terminal(columns, language);
      expect_fits(status_text(long_status(), terminal), columns);
      v1::ListNodesReply nodes;
      *nodes.mutable_nodes() = long_status().nodes();
      expect_fits(nodes_text(nodes, terminal), columns);
      expect_fits(actors_text(long_actors(), terminal), columns);
      expect_fits(trials_text(long_trials(), terminal), columns);
      expect_fits(queue_text(queue_page(), terminal, 65'000), columns);
    }
  }
}

TEST(Fit, NodesAt80ColumnsShowWhatIsInUse) {
  v1::ListNodesReply nodes;
  *nodes.mutable_nodes() = long_status().nodes();
  EXPECT_EQ(nodes_text(nodes, wide_terminal(80)),
            R"(node                state         CPUs   GPUs       memory  busy CPUs  busy GPUs
rack-17-c…-node-03  alive    20.25/128  7.5/8  100/512 GiB       90.0       50 %
rack-17-c…-node-02  alive    20.25/128  7.5/8  100/512 GiB        5.0       50 %
rack-17-c…-node-01  suspect  20.25/128  7.5/8  100/512 GiB        3.0       50 %
… not shown: actors, heard, address, labels; --wide shows all
)");
  EXPECT_EQ(nodes_text(nodes, wide_terminal(120)),
            R"(node                      state         CPUs   GPUs       memory  busy CPUs  busy GPUs  actors   heard
rack-17-chas…gpu-node-03  alive    20.25/128  7.5/8  100/512 GiB       90.0       50 %      12  0.25 s
rack-17-chas…gpu-node-02  alive    20.25/128  7.5/8  100/512 GiB        5.0       50 %      12  0.25 s
rack-17-chas…gpu-node-01  suspect  20.25/128  7.5/8  100/512 GiB        3.0       50 %      12  0.25 s
… not shown: address, labels; --wide shows all
)");
  EXPECT_EQ(
      nodes_text(nodes, wide_terminal(200)),
      R"(node                      state         CPUs   GPUs       memory  busy CPUs  busy GPUs  actors   heard  address                                       labels
rack-17-chas…gpu-node-03  alive    20.25/128  7.5/8  100/512 GiB       90.0       50 %      12  0.25 s  2001:db8:1234:5678:9abc:def0:1234:5678:41234  disk=nvme,zone=eu-central-1a
rack-17-chas…gpu-node-02  alive    20.25/128  7.5/8  100/512 GiB        5.0       50 %      12  0.25 s  2001:db8:1234:5678:9abc:def0:1234:5678:41234  disk=nvme,zone=eu-central-1a
rack-17-chas…gpu-node-01  suspect  20.25/128  7.5/8  100/512 GiB        3.0       50 %      12  0.25 s  2001:db8:1234:5678:9abc:def0:1234:5678:41234  disk=nvme,zone=eu-central-1a
)");
}

TEST(Fit, ActorsComeByStateAndUseWithTheirNamesFirst) {
  EXPECT_EQ(actors_text(long_actors(), wide_terminal(80)),
            R"(actor                     id        state    node              busy CPUs  memory
busy-one                  00000004  alive    rack-17-…node-01       3.50   3 GiB
replay-buffe…er-shard-07  00000001  alive    rack-17-…node-01       0.50   3 GiB
waiting-one               00000003  pending  rack-17-…node-01
dead-one                  00000002  dead     rack-17-…node-01
… not shown: reserved, process, reason, class, isolation; --wide shows all
)");
  EXPECT_EQ(actors_text(long_actors(), wide_terminal(120)),
            R"(actor                     id        state    node            busy CPUs  memory  reserved        reason
busy-one                  00000004  alive    rack-17…ode-01       3.50   3 GiB  cpus 4, gpus 1
replay-buffe…er-shard-07  00000001  alive    rack-17…ode-01       0.50   3 GiB  cpus 4, gpus 1
waiting-one               00000003  pending  rack-17…ode-01                     cpus 4, gpus 1  no node has 1 GPU free:…
dead-one                  00000002  dead     rack-17…ode-01                     cpus 4, gpus 1
… not shown: process, class, isolation; --wide shows all
)");
  EXPECT_EQ(
      actors_text(long_actors(), wide_terminal(200)),
      R"(actor                     id        state    node                      busy CPUs  memory  reserved        process  reason                                                        class         isolation
busy-one                  00000004  alive    rack-17-chas…gpu-node-01       3.50   3 GiB  cpus 4, gpus 1  4194303                                                                compan…eplay  process
replay-buffe…er-shard-07  00000001  alive    rack-17-chas…gpu-node-01       0.50   3 GiB  cpus 4, gpus 1  4194303                                                                compan…eplay  process
waiting-one               00000003  pending  rack-17-chas…gpu-node-01                     cpus 4, gpus 1  4194303  no node has 1 GPU free: 16 of 16 in use; behind 3 requests …  compan…eplay  process
dead-one                  00000002  dead     rack-17-chas…gpu-node-01                     cpus 4, gpus 1  4194303                                                                compan…eplay  process
)");
}

TEST(Fit, TrialsKeepWholeNumbers) {
  EXPECT_EQ(trials_text(long_trials(), wide_terminal(80)),
            R"(trial     status   node                      step  validation/t…he_ensemble
00000003  running  rack-17-chas…gpu-node-02    20                    0.1235
00000002  waiting                              10                    0.1235
00000001  stopped  rack-17-chas…gpu-node-00     0                    0.1235
… not shown: experiment, augmentation, optimizer.le…of_the_head, optimizer.name…
)");
  EXPECT_EQ(
      trials_text(long_trials(), wide_terminal(120)),
      R"(trial     status   node               step  validation/t…he_ensemble              augmentation  optimizer.le…of_the_head
00000003  running  rack-17-…-node-02    20                    0.1235  randaugment-m9-mstd0.5-…                   0.00123
00000002  waiting                       10                    0.1235  randaugment-m9-mstd0.5-…                   0.00123
00000001  stopped  rack-17-…-node-00     0                    0.1235  randaugment-m9-mstd0.5-…                   0.00123
… not shown: experiment, optimizer.name, optimizer.weight_decay, reason; --wide shows all
)");
}

TEST(Fit, StatusShowsRunningExperimentsAndTheNewestFive) {
  const std::string text = status_text(long_status(), wide_terminal(80));
  EXPECT_EQ(text, R"(cluster a-cluster-whose-name-takes-half-of-the-line-of-a-terminal
  2001:db8:1234:5678:9abc:def0:1234:5678:6380 · volador 0.4.0 · up 3 min 20 s
  in use      cpus 60.75 of 384 · gpus 22.5 of 24 · memory 300 GiB of 1.5 TiB
  nodes       2 alive, 1 suspect · 2 lost: volador list nodes --state=dead
  actors      3 alive, 12 dead
  programs    0

experiment                        state     trials  left  of which
resnet-vs-vit_im…weep_2026-11-13  running      400     –  100 finished, 300 sto…
resnet-vs-vit_im…weep_2026-11-20  finished     400        100 finished, 300 sto…
resnet-vs-vit_im…weep_2026-11-19  finished     400        100 finished, 300 sto…
resnet-vs-vit_im…weep_2026-11-18  finished     400        100 finished, 300 sto…
resnet-vs-vit_im…weep_2026-11-17  finished     400        100 finished, 300 sto…
resnet-vs-vit_im…weep_2026-11-16  finished     400        100 finished, 300 sto…
… 3 more: volador list experiments

node                state         CPUs   GPUs       memory  busy CPUs  busy GPUs
rack-17-c…-node-03  alive    20.25/128  7.5/8  100/512 GiB       90.0       50 %
rack-17-c…-node-02  alive    20.25/128  7.5/8  100/512 GiB        5.0       50 %
rack-17-c…-node-01  suspect  20.25/128  7.5/8  100/512 GiB        3.0       50 %
… not shown: actors, heard, address, labels; --wide shows all
)");
  EXPECT_THAT(text, HasSubstr("… 3 more: volador list experiments"));
}

TEST(Fit, StatusSaysHowManyNodesWereLostAndWhyMoreIsInUseThanThereIs) {
  v1::StatusReply status = long_status();
  (*status.mutable_nodes(1)->mutable_used())["cpus"] = 1'290'000;
  const std::string text = status_text(status, wide_terminal(0));
  EXPECT_THAT(text, HasSubstr("2 alive, 1 suspect · 2 lost: volador list nodes --state=dead"));
  EXPECT_THAT(text, HasSubstr("129 of 128 CPUs in use, as tasks that waited have taken back the CPUs they lent"));
  EXPECT_THAT(status_text(long_status(), wide_terminal(0)), Not(HasSubstr("taken back")));
  expect_fits(status_text(status, wide_terminal(80)), 80);
}

TEST(Fit, QueueAt80ColumnsShowsReasonsBeforeIdsAndPrograms) {
  const std::string text = queue_text(queue_page(), wide_terminal(80), 65'000);
  EXPECT_THAT(text, AllOf(HasSubstr("reason"), HasSubstr("no nodes have 8 GPUs together"),
                          HasSubstr("node heron keeps its resources for p")))
      << text;
  EXPECT_THAT(text, AllOf(Not(HasSubstr("52eceb10 ")), Not(HasSubstr("train_llm")), Not(HasSubstr("  trial  "))))
      << text;
}

TEST(Fit, QueueNamesPlaceAndBlocker) {
  const std::string text = queue_text(queue_page(), wide_terminal(0), 65'000);
  EXPECT_THAT(text, HasSubstr("group trainers (52eceb10)"));
  EXPECT_THAT(text, HasSubstr("vit-sweep"));
  EXPECT_THAT(text, HasSubstr("… 3 more: --limit=5"));
  // Rows of a head that does not send positions and blockers.
  const auto old = nlohmann::json::parse(
      R"({"total": 1, "rows": [{"id": "1", "display": "Cell", "kind": "Cell", "resources": {"cpus": 1}, "reason": "why", "since_ms": 1}]})");
  EXPECT_THAT(queue_text(old, wide_terminal(0), 10'000),
              AllOf(HasSubstr("Cell"), HasSubstr("cpus 1"), HasSubstr("why")));
  EXPECT_EQ(queue_text(nlohmann::json::parse(R"({"rows": []})"), wide_terminal(80), 0),
            "nothing waits for resources\n");
}

TEST(Fit, ExperimentsComeRunningFirstThenNewest) {
  const auto page = nlohmann::json::parse(R"({"total": 3, "rows": [
    {"name": "old", "state": "failed", "started_ms": 1000, "trials_total": 4, "trials_by_status": {"finished": 4}},
    {"name": "new", "state": "finished", "started_ms": 5000, "trials_total": 4, "trials_by_status": {"finished": 3, "stopped": 1}},
    {"name": "now", "state": "running", "started_ms": 3000, "trials_total": 9, "trials_by_status": {"running": 2}, "best": {"trial": "3f2a", "value": 0.98}}]})");
  const auto lines = split_lines(experiments_text(page, wide_terminal(80)));
  ASSERT_EQ(lines.size(), 4u + (lines.back().starts_with("…") ? 1u : 0u));
  EXPECT_TRUE(lines[1].starts_with("now")) << lines[1];
  EXPECT_THAT(lines[1], AllOf(HasSubstr("0/9"), HasSubstr("0.98"), HasSubstr("3f2a")));
  EXPECT_TRUE(lines[2].starts_with("new")) << lines[2];
  EXPECT_TRUE(lines[3].starts_with("old")) << lines[3];
}

TEST(Fit, TasksAreCountedByFunction) {
  const auto runners = nlohmann::json::parse(
      R"({"rows": [{"id": "aa", "state": "alive"}, {"id": "bb", "state": "pending", "reason": "no CPU is free"}, {"id": "cc", "state": "dead"}]})");
  v1::TimelineReply timeline;
  v1::TimelineProcess& process = *timeline.add_processes();
  process.add_names("square");
  process.add_names("Counter::add");
  process.add_actors("aa");
  process.add_actors("other");
  const auto add = [&](uint32_t name, uint32_t actor, uint32_t calls, bool running, bool failed) {
    v1::TimelineEvent& event = *process.add_events();
    event.set_name(name);
    event.set_actor(actor);
    event.set_calls(calls);
    event.set_span_ns(2'000'000 * int64_t{calls});
    event.set_running(running);
    event.set_failed(failed);
  };
  add(0, 0, 5, false, false);
  add(0, 0, 1, false, true);
  add(0, 0, 1, true, false);
  add(1, 1, 7, false, false);
  const auto functions = count_functions(timeline, runners);
  ASSERT_EQ(functions.size(), 1u) << "calls of other actors are no tasks";
  EXPECT_EQ(functions[0].ended, 6);
  EXPECT_EQ(functions[0].failed, 1);
  EXPECT_EQ(functions[0].running, 1);
  const std::string text = tasks_text(functions, runners, wide_terminal(80));
  EXPECT_THAT(text, HasSubstr("square"));
  EXPECT_THAT(text, HasSubstr("2 ms"));
  EXPECT_THAT(text, HasSubstr("places for tasks: 1 ready, 1 waiting: no CPU is free"));
}

TEST(Fit, RunsFitALine) {
  tune::RunSummary run;
  run.directory = "/results/resnet-vs-vit_imagenet21k_learning_rate_sweep_2026-11-21_10-02-11";
  run.state = "finished";
  run.metric = "validation/top_5_accuracy";
  run.best = 0.98312;
  run.best_trial = "3f2a90c1";
  for (const size_t columns : {40u, 80u, 120u}) expect_fits(runs_text({run}, wide_terminal(columns)), columns);
  EXPECT_THAT(runs_text({run}, wide_terminal(80)),
              AllOf(HasSubstr("0.9831"), HasSubstr("10-02-11"), HasSubstr("3f2a90c1")));
}

TEST(CutMiddle, KeepsBothEndsAndWholeLetters) {
  EXPECT_EQ(cut_middle("heron", 5), "heron");
  EXPECT_EQ(cut_middle("heron-01", 6), "her…01");
  EXPECT_EQ(cut_middle("heron", 1), "…");
  EXPECT_EQ(cut_middle("heron", 0), "");
  EXPECT_EQ(cut_middle("计算节点一二三", 7), "计算…三") << "two columns a letter";
  EXPECT_EQ(cut_middle("ab\xcc\x81"
                       "cdefgh",
                       5),
            "ab\xcc\x81…gh")
      << "an accent stays with its letter";
  for (size_t columns = 1; columns < 20; ++columns)
    EXPECT_LE(display_width(cut_middle("计算a节点b一二c三", columns)), columns);
}

TEST(Wrapped, BreaksBetweenParts) {
  EXPECT_EQ(wrapped({"one", "two", "three"}, " · ", 0, 2), "one · two · three\n");
  EXPECT_EQ(wrapped({"one", "two", "three"}, " · ", 10, 2), "one · two\n  three\n");
  EXPECT_EQ(wrapped({"a part that is too long"}, " · ", 10, 2), "a part th…\n");
}

TEST(TableFit, LeavesOutTheHighestRankFirstAndNamesIt) {
  Table table({{.title = "name", .width_max = 6, .width_min = 4, .cut = Cut::kMiddle},
               {.title = "a", .rank = 1},
               {.title = "b", .rank = 2},
               {.title = "c", .rank = 3}});
  table.add({"abcdefgh", "11", "22", ""});
  EXPECT_EQ(table.text(14), "name    a   b\nabc…gh  11  22\n") << "the column without contents takes no room";
  EXPECT_EQ(table.text(12), "name  a   b\nab…h  11  22\n") << "a name shrinks before a column goes";
  EXPECT_EQ(table.text(10), "name    a\nabc…gh  11\n");
  EXPECT_EQ(table.left_out(10), (std::vector<std::string>{"b"}));
  EXPECT_EQ(table.text(), "name      a   b\nabcdefgh  11  22\n");
}

}  // namespace
}  // namespace volador::cli
