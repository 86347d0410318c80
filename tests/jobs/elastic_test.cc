// Elastic jobs: how many nodes they start on, what changes with that number, and when they grow.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "jobs/command.h"
#include "jobs/job_core.h"
#include "jobs/job_spec.h"
#include "jobs/job_yaml.h"
#include "jobs/queue/job_planner.h"
#include "jobs/queue/start_forecast.h"
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
using testing::SizeIs;

constexpr int64_t kElasticNow = 1'000'000;

// ---- the planner ----

struct ElasticQueue {
  ClusterView view;
  std::vector<QueuedJob> queue;
  PlannerOptions options;

  explicit ElasticQueue(int nodes, double gpus = 8) {
    for (int i = 0; i < nodes; ++i) {
      const ResourceSet all = *ResourceSet::from({.gpus = gpus});
      view.nodes.push_back({.name = fmt::format("n{}", i), .labels = {}, .total = all, .free = all});
    }
  }
  QueuedJob& job(int min_nodes, int nodes, double gpus = 8) {
    QueuedJob& job = queue.emplace_back();
    job.number = queue.size();
    job.project = "vision";
    job.nodes = nodes;
    job.min_nodes = min_nodes;
    job.per_node = *ResourceSet::from({.gpus = gpus});
    job.submitted_ms = static_cast<int64_t>(queue.size());
    return job;
  }
  void holds(size_t node, double gpus, int64_t limit_ms) {
    RunningJob& run = view.running.emplace_back();
    run.number = 100 + node;
    run.started_ms = kElasticNow;
    run.limit_ms = limit_ms;
    run.project = "speech";
    run.held = {{view.nodes[node].name, *ResourceSet::from({.gpus = gpus})}};
    view.nodes[node].free -= run.held[0].second;
  }
  Plan planned() const { return plan(view, queue, kElasticNow, options); }
  // "1@n0,n1 2@n2".
  std::string starts() const {
    std::vector<std::string> parts;
    for (const auto& [number, placement] : planned().start)
      parts.push_back(fmt::format("{}@{}", number, fmt::join(placement.nodes, ",")));
    return fmt::format("{}", fmt::join(parts, " "));
  }
};

TEST(ElasticPlanner, AJobTakesAsManyNodesAsFit) {
  for (int nodes = 1; nodes <= 5; ++nodes) {
    ElasticQueue queue(nodes);
    queue.job(2, 4);
    const Plan made = queue.planned();
    if (nodes < 2) {
      EXPECT_THAT(made.start, IsEmpty());
      EXPECT_EQ(made.waits[0].kind, WaitKind::kNever);
    } else {
      ASSERT_THAT(made.start, SizeIs(1));
      EXPECT_EQ(made.start[0].second.nodes.size(), static_cast<size_t>(std::min(nodes, 4)));
    }
  }
}

TEST(ElasticPlanner, ABlockedJobHasAReservationForItsLeastNodes) {
  ElasticQueue queue(3);
  queue.holds(0, 8, 100);
  queue.holds(1, 8, 200);
  queue.job(2, 3);
  const Plan made = queue.planned();
  ASSERT_THAT(made.blocked, SizeIs(1));
  EXPECT_EQ(made.blocked[0].likely_ms, kElasticNow + 100);
  EXPECT_THAT(made.blocked[0].nodes, SizeIs(2));
  EXPECT_THAT(made.waits[0].text(), HasSubstr("at least 2 nodes"));
  EXPECT_EQ(made.waits[0].shortage->nodes_most, 3);
  EXPECT_EQ(forecast(queue.view, queue.queue, kElasticNow, queue.options).jobs[0].likely_ms, kElasticNow + 100);
}

TEST(ElasticPlanner, AJobBehindTheBlockedOneTakesOnlyWhatThatLeaves) {
  ElasticQueue queue(4);
  queue.holds(0, 8, 100);
  queue.holds(1, 8, 100);
  queue.job(0, 3);
  queue.job(1, 3);
  EXPECT_EQ(queue.starts(), "2@n3");
  queue.queue[1].limit_ms = 50;  // It ends before the blocked job starts.
  EXPECT_EQ(queue.starts(), "2@n2,n3");
}

TEST(ElasticPlanner, TheLimitOfTheProjectBoundsTheNodes) {
  ElasticQueue queue(5);
  queue.options.limits["vision"] = *ResourceSet::from({.gpus = 27});
  queue.job(1, 5);
  queue.job(1, 5);
  EXPECT_EQ(queue.starts(), "1@n0,n1,n2");
  EXPECT_EQ(queue.planned().wait_of(2)->kind, WaitKind::kProjectLimit);
  EXPECT_TRUE(check_feasible(queue.view, queue.queue[0], queue.options));
  queue.queue[0].min_nodes = 4;
  const auto refused = check_feasible(queue.view, queue.queue[0], queue.options);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("this job needs 32 GPUs"));
}

TEST(ElasticPlanner, PreemptionFreesTheLeastNodes) {
  ElasticQueue queue(3);
  for (size_t node = 0; node < 3; ++node) queue.holds(node, 8, 0);
  queue.options.preempt_from = JobPriority::kUrgent;
  queue.job(2, 3).priority = JobPriority::kUrgent;
  EXPECT_THAT(queue.planned().preempt, SizeIs(2));
}

TEST(ElasticPlanner, FeasibilityIsThatOfTheLeastNodes) {
  ElasticQueue queue(2);
  EXPECT_TRUE(check_feasible(queue.view, queue.job(2, 4)));
  const auto refused = check_feasible(queue.view, queue.job(3, 4));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("it needs at least 3 nodes, and 2 could hold it"));
}

TEST(ElasticPlanner, AvoidedNodesAreNotUsed) {
  ElasticQueue queue(3);
  queue.job(1, 3).avoids = {"n1"};
  EXPECT_EQ(queue.starts(), "1@n0,n2");
  queue.job(0, 3).avoids = {"n1"};
  const Wait wait = queue.planned().waits[0];
  EXPECT_EQ(wait.kind, WaitKind::kNever);
  EXPECT_THAT(wait.text(), HasSubstr("it needs 3 nodes, 2 could hold it, and it avoids n1"));
}

// ---- the specification ----

TEST(ElasticSpec, NumbersOfNodesAreRead) {
  EXPECT_EQ(parse_node_counts("4")->nodes, 4);
  EXPECT_EQ(parse_node_counts("4")->min_nodes, 0);
  EXPECT_EQ(parse_node_counts("2-16")->nodes, 16);
  EXPECT_EQ(parse_node_counts("2-16")->min_nodes, 2);
  for (const char* wrong : {"", "-", "2-", "-4", "a", "2-4-6", "2 - 4", "0-4", "--4", "1e3", "99999999999"}) {
    const auto read = parse_node_counts(wrong);
    ASSERT_FALSE(read) << wrong;
    EXPECT_THAT(read.error().message, HasSubstr("nodes: expected a number such as 4, or 2-4")) << wrong;
  }
}

TEST(ElasticSpec, YamlHasBothForms) {
  const auto range = jobs_from_yaml("nodes: 2-4\ncommand: [true]\ngrow: true", "job.yaml");
  ASSERT_TRUE(range) << range.error().message;
  EXPECT_EQ(range->base.nodes(), 4);
  EXPECT_EQ(range->base.min_nodes(), 2);
  EXPECT_TRUE(range->base.grow());
  const auto fields = jobs_from_yaml("nodes: 4\nmin_nodes: 2", "job.yaml");
  ASSERT_TRUE(fields);
  EXPECT_EQ(fields->base.min_nodes(), 2);
  EXPECT_EQ(jobs_from_yaml("nodes: few", "job.yaml").error().message,
            "job.yaml:1:8: nodes: expected a number such as 4, or 2-4 for an elastic job, got \"few\"");
}

TEST(ElasticSpec, RulesAreChecked) {
  const auto checked = [](int min_nodes, int nodes, bool grow) {
    v1::JobSpec spec = core_spec(0, nodes);
    spec.set_min_nodes(min_nodes);
    spec.set_grow(grow);
    const auto done = checked_spec(spec);
    return done ? std::string() : done.error().message;
  };
  EXPECT_EQ(checked(2, 4, true), "");
  EXPECT_EQ(checked(4, 4, false), "");
  EXPECT_THAT(checked(5, 4, false), HasSubstr("min_nodes: expected 1 to the job's nodes (4), got 5"));
  EXPECT_THAT(checked(-1, 4, false), HasSubstr("min_nodes"));
  EXPECT_THAT(checked(0, 4, true), HasSubstr("grow: only an elastic job grows"));
  EXPECT_THAT(checked(4, 4, true), HasSubstr("grow: only an elastic job grows"));
}

// ---- the state machine ----

// Nodes n0 to n3 with 4 GPUs each.
class ElasticCoreTest : public JobCoreTest {
 protected:
  ElasticCoreTest() {
    for (int i = 0; i < 4; ++i) node(fmt::format("n{}", i), 4);
    look();
    sent_.clear();
  }
  static v1::JobSpec elastic(int min_nodes, int nodes, bool grow = false) {
    v1::JobSpec spec = core_spec(4, nodes);
    spec.set_min_nodes(min_nodes);
    spec.set_grow(grow);
    spec.set_mode("torch");
    return spec;
  }
  void lose(const std::string& name) {
    const auto at = std::ranges::find(nodes_, name, &PlanNode::name);
    lost_.push_back(*at);
    nodes_.erase(at);
    for (const auto& [id, process] : std::map(processes_)) {
      if (process.node == name) ends(id, core_cause(CoreCause::NODE_LOST));
    }
  }
  void come_back() {
    nodes_.insert(nodes_.end(), lost_.begin(), lost_.end());
    lost_.clear();
  }
  // The job has its nodes and runs on them.
  void starts(const std::string& id) {
    if (job(id).ranks_size() > 1) ready(id);
    run(id);
    look();
    EXPECT_EQ(state(id), "running");
  }
  std::vector<std::string> world_sizes() const {
    std::vector<std::string> out;
    for (const auto& spawn : spawns()) out.push_back(start_of(spawn).env.at("WORLD_SIZE"));
    return out;
  }
  void wait_s(int64_t seconds) {
    for (int64_t i = 0; i < seconds; ++i) {
      now_ += 1000;
      looks_ = false;
      tick();
      if (looks_) look();
    }
  }
  std::vector<PlanNode> lost_;
};

TEST_F(ElasticCoreTest, GoesFromFourNodesToTwoAndBack) {
  const std::string id = submit(elastic(2, 4, true));
  starts(id);
  EXPECT_EQ(job(id).nodes(), 4);
  EXPECT_THAT(world_sizes(), ElementsAre("4", "4", "4", "4"));
  sent_.clear();

  now_ += 1000;
  lose("n3");
  lose("n1");
  killed_and_gone(id);
  EXPECT_EQ(job(id).nodes(), 2);
  starts(id);
  EXPECT_THAT(world_sizes(), ElementsAre("2", "2"));
  EXPECT_EQ(start_of(spawns()[1]).env.at("RANK"), "1");
  EXPECT_EQ(start_of(spawns()[1]).peer_nodes, (std::vector<std::string>{"n0", "n2"}));
  EXPECT_EQ(job(id).restarts(), 0);
  sent_.clear();

  wait_s(30);
  EXPECT_THAT(kills(), IsEmpty()) << "there is no more room";
  come_back();
  look();
  EXPECT_THAT(kills(), IsEmpty()) << "not at once";
  wait_s(9);
  EXPECT_THAT(kills(), IsEmpty());
  wait_s(1);
  ASSERT_THAT(kills(), SizeIs(2));
  EXPECT_EQ(kills()[0].grace_ms(), 30'000) << "it is asked to save";
  EXPECT_THAT(job(id).reason(), HasSubstr("goes on with 4 nodes instead of 2"));
  sent_.clear();
  killed_and_gone(id);
  EXPECT_EQ(job(id).nodes(), 4);
  starts(id);
  EXPECT_THAT(world_sizes(), ElementsAre("4", "4", "4", "4"));
  EXPECT_EQ(job(id).restarts(), 0);
  EXPECT_EQ(job(id).preemptions(), 0);
  for (int rank = 0; rank < 4; ++rank) exits(id, 0, rank);
  EXPECT_EQ(state(id), "succeeded");
}

TEST_F(ElasticCoreTest, GrowsAtMostOnceAMinute) {
  const std::string other = running(core_spec(4, 2));
  const std::string id = submit(elastic(1, 4, true));
  starts(id);
  EXPECT_EQ(job(id).nodes(), 2);
  lost_.push_back(nodes_.back());
  nodes_.pop_back();  // Room for one more later.
  for (int rank = 0; rank < 2; ++rank) exits(other, 0, rank);
  sent_.clear();
  wait_s(12);
  ASSERT_FALSE(kills().empty());
  killed_and_gone(id);
  const int grown = job(id).nodes();
  EXPECT_GT(grown, 2);
  starts(id);
  come_back();
  sent_.clear();
  wait_s(45);
  EXPECT_THAT(kills(), IsEmpty());
  wait_s(30);
  EXPECT_THAT(kills(), SizeIs(grown));
}

TEST_F(ElasticCoreTest, DoesNotGrowWhileAnotherJobWaitsForRoom) {
  const std::string blocker = running(core_spec(4, 2));
  const std::string id = submit(elastic(1, 4, true));
  starts(id);
  EXPECT_EQ(job(id).nodes(), 2);
  const std::string waits = submit(core_spec(4, 4));
  exits(blocker, 0, 0);
  exits(blocker, 0, 1);
  look();
  sent_.clear();
  wait_s(30);
  EXPECT_THAT(kills(), IsEmpty());
  ASSERT_TRUE(stop(waits));
  wait_s(12);
  EXPECT_THAT(kills(), SizeIs(2));
}

TEST_F(ElasticCoreTest, AJobThatMayNotGrowKeepsItsNodes) {
  const std::string blocker = running(core_spec(4, 2));
  const std::string id = submit(elastic(1, 4));
  starts(id);
  exits(blocker, 0, 0);
  exits(blocker, 0, 1);
  sent_.clear();
  wait_s(90);
  EXPECT_THAT(kills(), IsEmpty());
  EXPECT_EQ(job(id).nodes(), 2);
}

TEST_F(ElasticCoreTest, TheReasonNamesMinNodes) {
  running(core_spec(4, 3));
  const std::string id = submit(elastic(2, 4));
  EXPECT_THAT(job(id).reason(),
              HasSubstr("starts on 2 (min_nodes) to 4 nodes: needs 2 nodes at once; 1 have room now"));
  const auto refused = try_submit(elastic(5, 8));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInfeasible);
  EXPECT_THAT(refused.error().message, HasSubstr("at least 5 nodes"));
}

TEST_F(ElasticCoreTest, StartsOnFewerNodesIfThoseThatWerePlannedAreTaken) {
  const std::string id = submit(elastic(2, 4));
  EXPECT_EQ(job(id).ranks_size(), 4);
  others_["n2"] = *ResourceSet::from({.gpus = 4});  // An actor came first; the group waits in the head.
  wait_s(3);
  EXPECT_EQ(job(id).ranks_size(), 4);
  wait_s(4);
  EXPECT_EQ(job(id).nodes(), 3);
  EXPECT_THAT(sent_kinds(), testing::Contains("remove_group"));
  starts(id);
}

// The head shows the bundles of a removed group as used for a moment.
TEST_F(ElasticCoreTest, DoesNotSettleForLessWhileItsOwnGroupIsRemoved) {
  const std::string id = submit(elastic(2, 4));
  starts(id);
  lose("n3");
  for (const char* name : {"n0", "n1"}) others_[name] = *ResourceSet::from({.gpus = 4});
  come_back();
  for (int rank = 0; rank < 4; ++rank) {
    if (job(id).ranks(rank).state() != "ended") killed(id, rank);
  }
  processes_.clear();
  const ClusterState before = cluster();
  deliver([&] { core_->on_cluster(before, now_); });
  ASSERT_THAT(removals_, SizeIs(1));
  EXPECT_EQ(state(id), "queued");
  deliver([&] { core_->on_cluster(before, now_); });
  EXPECT_NE(job(id).nodes(), 2);
  others_.clear();
  look();
  EXPECT_EQ(job(id).nodes(), 4);
}

TEST_F(ElasticCoreTest, OneNodeNeedsNoGroup) {
  running(core_spec(4, 3));
  const std::string id = submit(elastic(1, 4));
  EXPECT_THAT(sent_kinds(), ElementsAre("spawn"));
  EXPECT_EQ(start_of(spawns()[0]).env.at("WORLD_SIZE"), "1");
  starts(id);
  restart();
  connect();
  EXPECT_EQ(job(id).nodes(), 1);
  EXPECT_EQ(state(id), "running");
}

}  // namespace
}  // namespace volador::jobs
