// Jobs whose ranks share nodes: where they are placed, what each rank gets, and what can never run.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "jobs/command.h"
#include "jobs/job_core.h"
#include "jobs/job_spec.h"
#include "jobs/job_yaml.h"
#include "jobs/queue/job_planner.h"
#include "jobs/queue/start_forecast.h"
#include "runtime/node_health.h"
#include "runtime/node_name_rule.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/resources.h"
#include "runtime/result.h"
#include "tests/jobs/job_core_harness.h"

namespace volador::jobs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr int64_t kSharedNow = 1'000'000;

// ---- the planner ----

struct SharedQueue {
  ClusterView view;
  std::vector<QueuedJob> queue;
  PlannerOptions options;

  // Nodes with so many CPUs each: "n0", "n1" and so on.
  explicit SharedQueue(const std::vector<double>& cpus) {
    for (size_t i = 0; i < cpus.size(); ++i) {
      const ResourceSet all = *ResourceSet::from({.cpus = cpus[i]});
      view.nodes.push_back({.name = fmt::format("n{}", i), .labels = {}, .total = all, .free = all});
    }
  }
  QueuedJob& job(int ranks, double cpus, bool shares = true) {
    QueuedJob& job = queue.emplace_back();
    job.number = queue.size();
    job.project = "vision";
    job.nodes = ranks;
    job.shares_nodes = shares;
    job.per_node = *ResourceSet::from({.cpus = cpus});
    job.submitted_ms = static_cast<int64_t>(queue.size());
    return job;
  }
  RunningJob& holds(size_t node, double cpus, int64_t limit_ms) {
    RunningJob& run = view.running.emplace_back();
    run.number = 100 + view.running.size();
    run.started_ms = kSharedNow;
    run.limit_ms = limit_ms;
    run.project = "speech";
    run.held = {{view.nodes[node].name, *ResourceSet::from({.cpus = cpus})}};
    view.nodes[node].free -= run.held[0].second;
    return run;
  }
  Plan planned() const { return plan(view, queue, kSharedNow, options); }
  // "1@n0,n0 2@n1".
  std::string starts() const {
    std::vector<std::string> parts;
    for (const auto& [number, placement] : planned().start)
      parts.push_back(fmt::format("{}@{}", number, fmt::join(placement.nodes, ",")));
    return fmt::format("{}", fmt::join(parts, " "));
  }
  std::string why_never() const {
    const auto checked = check_feasible(view, queue.back(), options);
    return checked ? std::string() : checked.error().message;
  }
};

TEST(SharedNodesPlanner, RanksArePackedOnOneNode) {
  SharedQueue queue({2, 4, 8});
  queue.job(3, 1);
  EXPECT_EQ(queue.starts(), "1@n1,n1,n1") << "the tightest that holds all";
  queue.job(3, 1, false);
  EXPECT_EQ(queue.starts(), "1@n1,n1,n1 2@n1,n0,n2");
}

TEST(SharedNodesPlanner, RanksThatNoNodeHoldsTogetherTakeFewNodes) {
  SharedQueue queue({2, 3, 8});
  queue.job(5, 2);
  EXPECT_EQ(queue.starts(), "1@n2,n2,n2,n2,n0");
  queue.job(1, 1);
  EXPECT_EQ(queue.starts(), "1@n2,n2,n2,n2,n0 2@n1");
}

TEST(SharedNodesPlanner, AllRanksStartOrNone) {
  SharedQueue queue({4});
  queue.holds(0, 2, 0);
  queue.job(3, 1);
  const Plan made = queue.planned();
  EXPECT_THAT(made.start, IsEmpty());
  EXPECT_EQ(made.waits[0].kind, WaitKind::kNoRoom);
  EXPECT_EQ(made.waits[0].text(), "needs room for 3 ranks, and there is room for 2 now");
  EXPECT_EQ(made.waits[0].shortage->nodes_able, 3) << "of its ranks";
}

TEST(SharedNodesPlanner, WhatARankNeedsIsSaidPerRank) {
  SharedQueue queue({4});
  queue.holds(0, 3, 0);
  queue.job(2, 2);
  EXPECT_EQ(queue.planned().waits[0].text(), "needs 2 CPUs for each rank, and no node has more than 1 CPU free");
}

TEST(SharedNodesPlanner, WhatCanNeverRunSaysWhyAndNamesTheWayOut) {
  SharedQueue queue({4});
  queue.job(3, 1);
  EXPECT_EQ(queue.why_never(), "");
  queue.job(5, 1);
  EXPECT_THAT(queue.why_never(), HasSubstr("it needs room for 5 ranks, and the nodes have room for 4"));
  queue.job(2, 8);
  EXPECT_THAT(queue.why_never(), HasSubstr("it needs 8 CPUs for each rank, and the largest node has 4 CPUs"));
  queue.job(3, 1, false);
  EXPECT_THAT(queue.why_never(), HasSubstr("it needs 3 nodes, and 1 could hold it; with --share-nodes (share_nodes: "
                                           "true) several ranks of it run on a node"));
  queue.job(5, 1, false);
  EXPECT_THAT(queue.why_never(), HasSubstr("it needs 5 nodes, and 1 could hold it"));
  EXPECT_THAT(queue.why_never(), Not(HasSubstr("share")));
}

TEST(SharedNodesPlanner, NodesThatTakeNoJobsCountForTheirRanks) {
  SharedQueue queue({4, 2});
  queue.view.nodes[0].takes_jobs = false;
  queue.job(3, 1);
  const Plan made = queue.planned();
  EXPECT_THAT(made.start, IsEmpty());
  EXPECT_EQ(made.waits[0].text(),
            "needs room for 3 ranks; the nodes that take jobs now have room for 2, and those that take none for 3");
}

TEST(SharedNodesPlanner, ABlockedJobStartsWhenEnoughRanksHaveRoomAndOthersLeaveItThatRoom) {
  SharedQueue queue({4, 4});
  queue.holds(0, 2, 100);
  queue.holds(1, 2, 200);
  queue.job(5, 1);
  queue.job(1, 1).limit_ms = 50;   // Ends before.
  queue.job(1, 1).limit_ms = 150;  // In the room that the first does not need then.
  queue.job(1, 1).limit_ms = 150;
  const Plan made = queue.planned();
  ASSERT_THAT(made.blocked, SizeIs(1));
  EXPECT_EQ(made.blocked[0].likely_ms, kSharedNow + 100);
  EXPECT_THAT(made.blocked[0].nodes, testing::UnorderedElementsAre("n0", "n1"));
  EXPECT_THAT(made.start, SizeIs(2));
  EXPECT_EQ(made.wait_of(4)->kind, WaitKind::kReserved);
  EXPECT_EQ(forecast(queue.view, queue.queue, kSharedNow, queue.options).jobs[0].likely_ms, kSharedNow + 100);
}

TEST(SharedNodesPlanner, AnUrgentJobPreemptsWhatItsRanksNeed) {
  SharedQueue queue({4});
  queue.holds(0, 1, 0);
  queue.holds(0, 1, 0);
  queue.holds(0, 1, 0);
  queue.options.preempt_from = JobPriority::kUrgent;
  queue.job(3, 1).priority = JobPriority::kUrgent;
  EXPECT_THAT(queue.planned().preempt, SizeIs(2));
}

TEST(SharedNodesPlanner, AnElasticJobTakesAsManyRanksAsFit) {
  SharedQueue queue({3});
  queue.job(5, 1).min_nodes = 2;
  EXPECT_EQ(queue.starts(), "1@n0,n0,n0");
}

TEST(SharedNodesPlanner, TheLimitOfAProjectCountsAllRanks) {
  SharedQueue queue({8});
  queue.options.limits["vision"] = *ResourceSet::from({.cpus = 2});
  queue.job(3, 1);
  EXPECT_EQ(queue.planned().waits[0].kind, WaitKind::kNever);
}

// ---- the specification ----

v1::JobSpec shared_spec(int ranks, const std::string& mode = "single") {
  v1::JobSpec spec = core_spec(0, ranks);
  spec.set_share_nodes(true);
  spec.set_mode(mode);
  return spec;
}

TEST(SharedNodesSpec, FilesHaveTheField) {
  const auto set = jobs_from_yaml("command: train\nnodes: 3\nshare_nodes: true\n", "job.yaml");
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_TRUE(set->base.share_nodes());
  EXPECT_EQ(set->base.nodes(), 3);
  EXPECT_FALSE(jobs_from_yaml("share_nodes: perhaps", "job.yaml"));
}

TEST(SharedNodesSpec, RanksMayBeHeldToNamedNodes) {
  v1::JobSpec spec = shared_spec(3);
  spec.add_node_names("oak");
  EXPECT_TRUE(checked_spec(spec));
  spec.set_share_nodes(false);
  EXPECT_THAT(checked_spec(spec).error().message, HasSubstr("only a job on one node or with share_nodes names nodes"));
}

TEST(SharedNodesSpec, DeepspeedWithGpusNeedsIsolation) {
  v1::JobSpec spec = shared_spec(2, "deepspeed");
  EXPECT_TRUE(checked_spec(spec));
  spec.set_gpus(1);
  EXPECT_THAT(checked_spec(spec).error().message, HasSubstr("share_nodes: the launcher of mode deepspeed"));
  spec.set_isolated(true);
  EXPECT_TRUE(checked_spec(spec));
}

// ---- the state machine ----

class SharedNodesTest : public JobCoreTest {
 protected:
  SharedNodesTest() {
    node("elm", 4, 4);
    look();
  }
  std::vector<CommandStart> starts() const {
    std::vector<CommandStart> all;
    for (const protocol::SpawnActor& spawn : spawns()) all.push_back(start_of(spawn));
    return all;
  }
};

TEST_F(SharedNodesTest, RanksGetAPackedGroupAndAmountsOfTheirOwn) {
  v1::JobSpec spec = shared_spec(3);
  spec.set_gpus(1);
  const std::string id = submit(spec);
  ASSERT_THAT(sent_kinds(), ElementsAre("create_group", "find_group"));
  const protocol::GroupSpec& group = sent_[0].create_group().spec();
  EXPECT_EQ(group.strategy(), protocol::PACK);
  EXPECT_EQ(group.bundle_labels_size(), 0);
  ASSERT_EQ(group.bundles_size(), 3);
  for (const auto& bundle : group.bundles())
    EXPECT_EQ(volador::resources_of(bundle), *ResourceSet::from({.cpus = 1, .gpus = 1}));
  ready(id);
  run(id);
  look();
  EXPECT_EQ(state(id), "running");
  const v1::Job shown = job(id);
  for (const v1::JobRank& rank : shown.ranks()) EXPECT_EQ(rank.node(), "elm");
  // What the ranks hold is used three times.
  EXPECT_THAT(try_submit(core_spec(2), kCoreAnn, true)->job().start().now(), false);
  EXPECT_THAT(try_submit(core_spec(1), kCoreAnn, true)->job().start().now(), true);
}

TEST_F(SharedNodesTest, NamedAndExcludedNodesAreRulesOfEachBundle) {
  node("oak", 0, 4);
  look();
  v1::JobSpec spec = shared_spec(2);
  spec.add_node_names("oak");
  submit(spec);
  const protocol::GroupSpec& group = sent_[0].create_group().spec();
  ASSERT_EQ(group.bundle_labels_size(), 2);
  for (const protocol::LabelRules& of : group.bundle_labels()) {
    ASSERT_EQ(of.rules_size(), 1);
    EXPECT_EQ(of.rules(0).key(), kNodeNameKey);
    EXPECT_EQ(of.rules(0).op(), protocol::LabelRule::IN);
    EXPECT_THAT(of.rules(0).values(), ElementsAre("oak"));
  }
}

TEST_F(SharedNodesTest, RanksOnOneNodeHaveSeparateEnvironments) {
  const std::string id = submit(shared_spec(3));
  ready(id);
  std::set<std::string> actors;
  ASSERT_THAT(starts(), SizeIs(3));
  for (const CommandStart& start : starts()) {
    EXPECT_EQ(start.env.at("RANK"), std::to_string(start.rank));
    EXPECT_EQ(start.env.at("WORLD_SIZE"), "3");
    EXPECT_EQ(start.env.at("MASTER_ADDR"), "elm.example");
    EXPECT_EQ(start.env.at("MASTER_PORT"), "20001");
    EXPECT_EQ(start.env.at("VOLADOR_JOB_HOSTS"), "elm.example,elm.example,elm.example");
    EXPECT_THAT(start.peer_nodes, ElementsAre("elm", "elm", "elm"));
    actors.insert(start.peer_actors.begin(), start.peer_actors.end());
  }
  EXPECT_THAT(actors, SizeIs(3));
}

TEST_F(SharedNodesTest, TorchrunIsTheSameWithRanksOfOneNode) {
  v1::JobSpec spec = shared_spec(2, "torchrun");
  spec.set_gpus(2);
  const std::string id = submit(spec);
  ready(id);
  for (const CommandStart& start : starts()) {
    EXPECT_THAT(start.command,
                testing::IsSupersetOf({std::string("--nnodes=2"), std::string("--nproc_per_node=2"),
                                       fmt::format("--node_rank={}", start.rank), std::string("--master_port=20001")}));
  }
}

TEST_F(SharedNodesTest, HostFilesHaveAHostForEachRank) {
  for (const char* mode : {"mpi", "horovod", "deepspeed"}) {
    sent_.clear();
    const std::string id = submit(shared_spec(2, mode));
    ready(id);
    ASSERT_THAT(starts(), SizeIs(2)) << mode;
    for (const CommandStart& start : starts()) {
      EXPECT_EQ(start.files.at("hostfile"), "server1 slots=1\nserver2 slots=1\n") << mode;
      EXPECT_EQ(start.command.empty(), start.rank != 0) << mode;
    }
    stop(id, true);
    killed_and_gone(id);
  }
}

TEST_F(SharedNodesTest, RanksOfTensorflowHavePortsOfTheirOwn) {
  v1::JobSpec spec = shared_spec(3, "tensorflow");
  spec.set_parameter_servers(1);
  const std::string id = submit(spec);
  ready(id);
  ASSERT_THAT(starts(), SizeIs(3));
  EXPECT_THAT(starts()[2].env.at("TF_CONFIG"),
              HasSubstr(R"("ps": ["elm.example:20001"], "worker": ["elm.example:10061", "elm.example:10062"])"));
  EXPECT_THAT(starts()[2].env.at("TF_CONFIG"), HasSubstr(R"("task": {"type": "worker", "index": 1})"));
}

TEST_F(SharedNodesTest, WhatCanNeverRunNamesTheWayOut) {
  const auto refused = try_submit(core_spec(0, 3));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInfeasible);
  EXPECT_THAT(refused.error().message, HasSubstr("--share-nodes"));
  EXPECT_TRUE(try_submit(shared_spec(3)));
  EXPECT_THAT(try_submit(shared_spec(5)).error().message, HasSubstr("room for 5 ranks"));
}

TEST_F(SharedNodesTest, AWaitingJobSaysForHowManyRanksThereIsRoom) {
  running(shared_spec(2));
  const std::string id = submit(shared_spec(3));
  EXPECT_EQ(job(id).reason(),
            "needs room for 3 ranks at once; there is room for 2 now, and for 3 when nothing else runs");
}

TEST_F(SharedNodesTest, ALostNodeEndsAllItsRanksAndTheJobRunsAgain) {
  const std::string id = running(shared_spec(3));
  for (int rank = 0; rank < 3; ++rank) ends(actor(id, rank), core_cause(CoreCause::NODE_LOST, 0, "lost"));
  nodes_.clear();
  look();
  look();
  EXPECT_EQ(state(id), "queued");
  sent_.clear();
  node("elm", 4, 4);
  look();
  ready(id);
  run(id);
  EXPECT_EQ(state(id), "running");
  EXPECT_EQ(job(id).ranks(0).attempt(), 2);
  const v1::Job shown = job(id);
  for (const v1::JobRank& rank : shown.ranks()) EXPECT_EQ(rank.node(), "elm");
}

TEST_F(SharedNodesTest, AProblemOfANodeIsToldOnce) {
  const std::string id = running(shared_spec(3));
  events_.clear();
  for (int rank = 0; rank < 3; ++rank) {
    protocol::HeadMessage out;
    protocol::ActorInfo& info = *out.mutable_actor();
    info.set_actor_id(raw(actor(id, rank)));
    info.set_state(protocol::ALIVE);
    info.set_version(++version_);
    info.set_node_name("elm");
    protocol::HealthProblem& problem = *info.add_problems();
    problem.set_code(std::string(health::kNetworkDown));
    problem.set_subject("eth0");
    message(out);
  }
  EXPECT_THAT(events_, ElementsAre(HasSubstr("job runs on a node that has a problem")));
}

}  // namespace
}  // namespace volador::jobs
