#include "jobs/queue/job_planner.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/resources.h"
#include "runtime/result.h"

namespace volador::jobs {
namespace {

constexpr int64_t kPlanMinute = 60'000;
constexpr int64_t kPlanNow = 1'000 * kPlanMinute;

ResourceSet planned_amounts(Resources resources) { return *ResourceSet::from(resources); }

// A cluster and a queue, built up by a test.
struct PlannedQueue {
  ClusterView view;
  std::vector<QueuedJob> queue;
  PlannerOptions options;
  JobNumber next_running = 1000;

  PlanNode& node(const std::string& name, double gpus, double cpus = 64) {
    const ResourceSet total = planned_amounts({.cpus = cpus, .gpus = gpus});
    view.nodes.push_back({.name = name, .labels = {}, .total = total, .free = total});
    return view.nodes.back();
  }

  // A job that runs since kPlanNow.
  RunningJob& runs(const std::string& name, Resources held, int64_t limit_ms, int64_t predicted_ms = 0) {
    const auto place = std::ranges::find(view.nodes, name, &PlanNode::name);
    place->free -= planned_amounts(held);
    view.running.push_back({.number = next_running++,
                            .started_ms = kPlanNow,
                            .limit_ms = limit_ms,
                            .predicted_ms = predicted_ms,
                            .project = "other",
                            .held = {{name, planned_amounts(held)}}});
    return view.running.back();
  }

  QueuedJob& job(JobNumber number, Resources per_node, int64_t limit_ms = 0, int nodes = 1) {
    queue.push_back({.number = number,
                     .project = "vision",
                     .owner = "ann",
                     .nodes = nodes,
                     .per_node = planned_amounts(per_node),
                     .submitted_ms = kPlanNow - kPlanMinute + static_cast<int64_t>(number),
                     .limit_ms = limit_ms,
                     .node_names = {},
                     .labels = {}});
    return queue.back();
  }

  Plan planned(int64_t now_ms = kPlanNow) const { return plan(view, queue, now_ms, options); }
};

// "1@a 2@b,c": started jobs and their nodes.
std::string starts_of(const Plan& plan) {
  std::vector<std::string> parts;
  for (const auto& [number, placement] : plan.start) {
    std::string nodes;
    for (const std::string& node : placement.nodes) nodes += (nodes.empty() ? "" : ",") + node;
    parts.push_back(fmt::format("{}@{}", number, nodes));
  }
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : " ") + part;
  return text;
}

WaitKind wait_kind_of(const Plan& plan, JobNumber number) {
  const Wait* wait = plan.wait_of(number);
  if (wait == nullptr) {
    ADD_FAILURE() << "job " << number << " does not wait";
    return WaitKind::kNever;
  }
  return wait->kind;
}

std::string wait_text_of(const Plan& plan, JobNumber number) {
  const Wait* wait = plan.wait_of(number);
  return wait == nullptr ? "does not wait" : wait->text();
}

TEST(JobPriority, WordsAreReadBack) {
  for (const auto priority : {JobPriority::kNormal, JobPriority::kUrgent, JobPriority::kVeryUrgent}) {
    EXPECT_EQ(*parse_job_priority(to_string(priority)), priority);
  }
  EXPECT_EQ(to_string(JobPriority::kVeryUrgent), "very_urgent");
  const auto wrong = parse_job_priority("high");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(wrong.error().message, "priority: expected normal, urgent or very_urgent, got \"high\"");
}

TEST(JobPlanner, OrderIsPriorityThenSubmissionThenNumber) {
  PlannedQueue cluster;
  cluster.node("a", 8);
  cluster.job(4, {.gpus = 1}).submitted_ms = 10;
  cluster.job(3, {.gpus = 1}).submitted_ms = 10;
  cluster.job(5, {.gpus = 1}).submitted_ms = 5;
  cluster.job(6, {.gpus = 1}).priority = JobPriority::kUrgent;
  cluster.job(7, {.gpus = 1}).priority = JobPriority::kVeryUrgent;
  EXPECT_EQ(starts_of(cluster.planned()), "7@a 6@a 5@a 3@a 4@a");
}

TEST(JobPlanner, FairShareCountsRunningJobsAndStartsOfThePass) {
  PlannedQueue cluster;
  cluster.node("a", 8);
  cluster.runs("a", {.gpus = 2}, 0).project = "vision";
  for (JobNumber number = 1; number <= 4; ++number) cluster.job(number, {.gpus = 1});
  for (JobNumber number = 5; number <= 8; ++number) cluster.job(number, {.gpus = 1}).project = "speech";
  // speech catches up from 0 to 2 GPUs; then both take turns, the earlier job first.
  EXPECT_EQ(starts_of(cluster.planned()), "5@a 6@a 1@a 7@a 2@a 8@a");
}

TEST(JobPlanner, WeightsDivideTheShare) {
  PlannedQueue cluster;
  cluster.node("a", 6);
  for (JobNumber number = 1; number <= 6; ++number) cluster.job(number, {.gpus = 1});
  for (JobNumber number = 7; number <= 12; ++number) cluster.job(number, {.gpus = 1}).project = "speech";
  cluster.options.weights["speech"] = 2;
  const Plan plan = cluster.planned();
  EXPECT_EQ(starts_of(plan), "1@a 7@a 8@a 2@a 9@a 10@a");
}

TEST(JobPlanner, ShareIsThatOfTheDominantResource) {
  PlannedQueue cluster;
  cluster.node("a", 8, 64);
  cluster.runs("a", {.cpus = 48}, 0).project = "vision";  // 3/4 of the CPUs.
  cluster.runs("a", {.gpus = 4}, 0).project = "speech";   // 1/2 of the GPUs.
  cluster.job(1, {.gpus = 4});
  cluster.job(2, {.gpus = 4}).project = "speech";
  EXPECT_EQ(starts_of(cluster.planned()), "2@a");
}

TEST(JobPlanner, GangTakesDifferentNodesOrNone) {
  PlannedQueue cluster;
  cluster.node("a", 8);
  cluster.node("b", 8);
  cluster.node("c", 8);
  cluster.runs("b", {.gpus = 1}, 0);
  cluster.job(1, {.gpus = 4}, 0, 3);
  cluster.job(2, {.gpus = 4}, 0, 3);
  EXPECT_EQ(starts_of(cluster.planned()), "1@b,a,c") << "the fullest node is rank 0";
  cluster.runs("c", {.gpus = 5}, 0);
  const Plan plan = cluster.planned();
  EXPECT_EQ(starts_of(plan), "");
  EXPECT_EQ(wait_text_of(plan, 1), "needs 3 nodes, and 2 nodes have room now");
  EXPECT_EQ(plan.wait_of(1)->shortage->nodes_fitting, 2);
}

TEST(JobPlanner, BestFitLooksAtGpusFirst) {
  PlannedQueue cluster;
  cluster.node("a", 8, 8);
  cluster.node("b", 4, 64);
  cluster.node("c", 0, 64);
  cluster.job(1, {.cpus = 1, .gpus = 1});
  cluster.job(2, {.cpus = 1});
  EXPECT_EQ(starts_of(cluster.planned()), "1@b 2@c");
}

TEST(JobPlanner, NothingStartsOnNodesThatTakeNoJobs) {
  PlannedQueue cluster;
  cluster.node("a", 8).takes_jobs = false;
  cluster.node("b", 4);
  cluster.job(1, {.gpus = 8});
  cluster.job(2, {.gpus = 4});
  const Plan plan = cluster.planned();
  EXPECT_EQ(starts_of(plan), "2@b");
  EXPECT_EQ(wait_kind_of(plan, 1), WaitKind::kNoRoom);
  EXPECT_EQ(wait_text_of(plan, 1), "needs 1 node; of the nodes that could hold it, 0 take jobs and 1 takes none now");
}

TEST(JobPlanner, NamesAndLabelsRestrictTheNodes) {
  PlannedQueue cluster;
  cluster.node("a", 8).labels["zone"] = "east";
  cluster.node("b", 8).labels["zone"] = "west";
  cluster.node("c", 8);
  cluster.job(1, {.gpus = 1}).labels["zone"] = "west";
  cluster.job(2, {.gpus = 1}).node_names = {"c", "d"};
  EXPECT_EQ(starts_of(cluster.planned()), "1@b 2@c");
}

// Node a is held by a job that ends at +10 min (limit +60 min); job 1 waits for all of it.
struct BackfilledQueue : PlannedQueue {
  BackfilledQueue() {
    node("a", 8);
    runs("a", {.gpus = 6}, 60 * kPlanMinute, 10 * kPlanMinute);
    job(1, {.gpus = 8}, 60 * kPlanMinute);
  }
};

TEST(JobPlanner, BlockedJobGetsTimesAndNodes) {
  BackfilledQueue cluster;
  const Plan plan = cluster.planned();
  ASSERT_EQ(plan.blocked.size(), 1u);
  EXPECT_EQ(plan.blocked.at(0).number, 1u);
  EXPECT_EQ(plan.blocked.at(0).likely_ms, kPlanNow + 10 * kPlanMinute);
  EXPECT_EQ(plan.blocked.at(0).latest_ms, kPlanNow + 60 * kPlanMinute);
  EXPECT_EQ(plan.blocked.at(0).nodes, std::vector<std::string>{"a"});
  EXPECT_EQ(wait_text_of(plan, 1), "needs 8 GPUs on a node, and no node has more than 2 GPUs free");
}

TEST(JobPlanner, ShortJobStartsBeforeTheBlockedOne) {
  BackfilledQueue cluster;
  cluster.job(2, {.gpus = 1}, 11 * kPlanMinute);
  cluster.job(3, {.gpus = 1}, 10 * kPlanMinute);
  cluster.job(4, {.gpus = 1});
  const Plan plan = cluster.planned();
  EXPECT_EQ(starts_of(plan), "3@a");
  EXPECT_EQ(wait_kind_of(plan, 2), WaitKind::kReserved);
  EXPECT_EQ(wait_text_of(plan, 2), "has room now, but would delay job 1, for which nodes are reserved; 1 job is ahead");
  EXPECT_EQ(plan.wait_of(4)->ahead, 2);
}

TEST(JobPlanner, PredictionsSufficeUntilTheGuardBegins) {
  BackfilledQueue cluster;
  cluster.queue[0].promised_ms = kPlanNow + 2 * kPlanMinute;
  cluster.job(2, {.gpus = 1}, 60 * kPlanMinute).predicted_ms = 5 * kPlanMinute;
  EXPECT_EQ(starts_of(cluster.planned()), "2@a") << "ends as predicted before +10 min and by its limit at +60 min";
  cluster.queue[1].limit_ms = 61 * kPlanMinute;
  EXPECT_EQ(starts_of(cluster.planned()), "") << "could delay the start at the latest";
  cluster.queue[1].limit_ms = 40 * kPlanMinute;
  Plan plan = cluster.planned(kPlanNow + 2 * kPlanMinute);
  EXPECT_FALSE(plan.blocked.at(0).guarded);
  EXPECT_EQ(starts_of(plan), "2@a");
  plan = cluster.planned(kPlanNow + 2 * kPlanMinute + 1);
  EXPECT_TRUE(plan.blocked.at(0).guarded);
  EXPECT_EQ(starts_of(plan), "");
  cluster.queue[1].limit_ms = 5 * kPlanMinute;
  EXPECT_EQ(starts_of(cluster.planned(kPlanNow + 3 * kPlanMinute)), "2@a") << "by its limit";
}

TEST(JobPlanner, GuardBeginsAfterSubmissionWithoutAPromise) {
  BackfilledQueue cluster;
  cluster.options.guard_ms = 3 * kPlanMinute;
  cluster.queue[0].submitted_ms = kPlanNow;
  EXPECT_FALSE(cluster.planned(kPlanNow + 3 * kPlanMinute).blocked.at(0).guarded);
  EXPECT_TRUE(cluster.planned(kPlanNow + 3 * kPlanMinute + 1).blocked.at(0).guarded);
}

TEST(JobPlanner, GuardKeepsNodesIfNoLimitIsKnown) {
  PlannedQueue cluster;
  cluster.node("a", 8);
  cluster.node("b", 8);
  cluster.runs("a", {.gpus = 4}, 0, 10 * kPlanMinute);
  cluster.runs("b", {.gpus = 6}, 0, 5 * kPlanMinute);
  cluster.job(1, {.gpus = 8}).promised_ms = kPlanNow + kPlanMinute;
  cluster.job(2, {.gpus = 4});
  Plan plan = cluster.planned();
  EXPECT_EQ(plan.blocked.at(0).nodes, std::vector<std::string>{"b"}) << "ends first";
  EXPECT_EQ(starts_of(plan), "2@a");
  plan = cluster.planned(kPlanNow + 2 * kPlanMinute);
  EXPECT_EQ(plan.blocked.at(0).latest_nodes, std::vector<std::string>{"a"}) << "lacks the least";
  EXPECT_EQ(starts_of(plan), "");
}

TEST(JobPlanner, LongJobStartsBesideTheReservation) {
  BackfilledQueue cluster;
  cluster.node("b", 4);
  cluster.job(2, {.cpus = 60, .gpus = 1});
  cluster.job(3, {.cpus = 4, .gpus = 4});
  cluster.job(4, {.cpus = 32});  // Fits beside job 1 on node a, which needs no CPU.
  EXPECT_EQ(starts_of(cluster.planned()), "2@b 4@a");
}

TEST(JobPlanner, JobStartsWhereEnoughIsLeftAtTheReservedTime) {
  PlannedQueue cluster;
  cluster.node("a", 8);
  cluster.runs("a", {.gpus = 6}, 60 * kPlanMinute, 10 * kPlanMinute);
  cluster.job(1, {.gpus = 6}, 60 * kPlanMinute);
  cluster.job(2, {.gpus = 1});
  cluster.job(3, {.gpus = 1});
  cluster.job(4, {.gpus = 1});
  const Plan plan = cluster.planned();
  EXPECT_EQ(starts_of(plan), "2@a 3@a") << "8 - 6 are left at +10 min";
  EXPECT_EQ(wait_kind_of(plan, 4), WaitKind::kBehind);
}

TEST(JobPlanner, UnknownEndsKeepWhatTheBlockedJobNeeds) {
  PlannedQueue cluster;
  cluster.node("a", 8, 16);
  cluster.node("b", 8, 16);
  cluster.runs("a", {.cpus = 1, .gpus = 4}, 0);
  cluster.runs("b", {.cpus = 1, .gpus = 6}, 0);
  cluster.job(1, {.cpus = 8, .gpus = 8});
  cluster.job(2, {.cpus = 1, .gpus = 2}, kPlanMinute);  // Node b.
  cluster.job(3, {.cpus = 1, .gpus = 2}, kPlanMinute);  // Only node a has room for it.
  cluster.job(4, {.cpus = 14});                         // Node b.
  cluster.job(5, {.cpus = 7});                          // Node a: 15 - 8 are left.
  cluster.job(6, {.cpus = 1});
  const Plan plan = cluster.planned();
  EXPECT_EQ(plan.blocked.at(0).likely_ms, 0);
  EXPECT_EQ(plan.blocked.at(0).latest_ms, 0);
  EXPECT_EQ(plan.blocked.at(0).latest_nodes, std::vector<std::string>{"a"});
  EXPECT_EQ(starts_of(plan), "2@b 4@b 5@a");
  EXPECT_EQ(wait_kind_of(plan, 3), WaitKind::kReserved);
  EXPECT_EQ(wait_kind_of(plan, 6), WaitKind::kReserved);
}

TEST(JobPlanner, OverrunPredictionIsRaisedByHalf) {
  BackfilledQueue cluster;
  EXPECT_EQ(cluster.planned(kPlanNow + 9 * kPlanMinute).blocked.at(0).likely_ms, kPlanNow + 10 * kPlanMinute);
  EXPECT_EQ(cluster.planned(kPlanNow + 10 * kPlanMinute).blocked.at(0).likely_ms, kPlanNow + 15 * kPlanMinute);
  EXPECT_EQ(cluster.planned(kPlanNow + 52 * kPlanMinute).blocked.at(0).likely_ms, kPlanNow + 60 * kPlanMinute)
      << "the limit";
}

TEST(JobPlanner, WithoutBackfillNothingStartsBehindTheBlockedJob) {
  BackfilledQueue cluster;
  cluster.job(2, {.gpus = 1}, kPlanMinute);
  cluster.options.backfill = false;
  const Plan plan = cluster.planned();
  EXPECT_EQ(starts_of(plan), "");
  EXPECT_EQ(wait_text_of(plan, 2), "waits behind job 1; 1 job is ahead");
}

TEST(JobPlanner, LessUrgentJobsFillInBehindABlockedUrgentOne) {
  BackfilledQueue cluster;
  cluster.queue[0].priority = JobPriority::kUrgent;
  cluster.job(2, {.gpus = 4}, kPlanMinute).submitted_ms = 1;
  cluster.job(3, {.gpus = 2}, kPlanMinute).submitted_ms = 2;
  const Plan plan = cluster.planned();
  EXPECT_EQ(starts_of(plan), "3@a");
  EXPECT_EQ(wait_kind_of(plan, 2), WaitKind::kBehind);
  EXPECT_EQ(plan.waits.front().number, 1u);
  EXPECT_EQ(wait_text_of(plan, 2), "waits behind job 1; 1 job is ahead; it needs 4 GPUs on a node, and none is free");
}

TEST(JobPlanner, JobThatCanNeverStartBlocksNobody) {
  PlannedQueue cluster;
  cluster.node("a", 8);
  cluster.job(1, {.gpus = 16});
  cluster.job(2, {.gpus = 8});
  const Plan plan = cluster.planned();
  EXPECT_EQ(starts_of(plan), "2@a");
  EXPECT_EQ(wait_kind_of(plan, 1), WaitKind::kNever);
  EXPECT_EQ(wait_text_of(plan, 1), "can never start: it needs 16 GPUs on a node, and the largest node has 8 GPUs");
  EXPECT_TRUE(plan.blocked.empty());
}

TEST(JobPlanner, UrgentQuotaHoldsBackWithoutBlocking) {
  PlannedQueue cluster;
  cluster.node("a", 8);
  cluster.options.urgent_quota["vision"] = 2;
  RunningJob& running = cluster.runs("a", {.gpus = 1}, 0);
  running.project = "vision";
  running.priority = JobPriority::kUrgent;
  for (JobNumber number = 1; number <= 4; ++number) cluster.job(number, {.gpus = 1}).priority = JobPriority::kUrgent;
  cluster.queue[2].project = "speech";
  cluster.queue[3].priority = JobPriority::kNormal;
  const Plan plan = cluster.planned();
  EXPECT_EQ(starts_of(plan), "3@a 1@a 4@a") << "speech has the smaller share";
  EXPECT_EQ(wait_kind_of(plan, 2), WaitKind::kUrgentQuota);
}

TEST(JobPlanner, UrgentQuotaIsCheckedAtSubmission) {
  PlannedQueue cluster;
  cluster.node("a", 8);
  cluster.options.urgent_quota["vision"] = 2;
  cluster.runs("a", {.gpus = 1}, 0).project = "vision";
  cluster.view.running[0].priority = JobPriority::kUrgent;
  EXPECT_TRUE(check_urgent_quota(cluster.view, cluster.queue, "vision", cluster.options));
  cluster.job(1, {.gpus = 1}).priority = JobPriority::kUrgent;
  const auto refused = check_urgent_quota(cluster.view, cluster.queue, "vision", cluster.options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      refused.error().message,
      "project vision: 1 urgent job is running and 1 is queued, and the quota is 2; wait for one to end, or submit "
      "with priority normal");
  EXPECT_TRUE(check_urgent_quota(cluster.view, cluster.queue, "speech", cluster.options));
}

TEST(CheckFeasible, SaysWhyAJobCanNeverStart) {
  PlannedQueue cluster;
  cluster.node("a", 8, 16).labels["zone"] = "east";
  cluster.node("b", 4, 64);
  cluster.node("c", 8, 16);
  cluster.runs("a", {.gpus = 8}, 0);
  const auto why = [&](const QueuedJob& job) {
    const auto checked = check_feasible(cluster.view, job);
    return checked ? std::string("feasible")
                   : fmt::format("{}: {}", to_string(checked.error().code), checked.error().message);
  };
  EXPECT_EQ(why(cluster.job(1, {.gpus = 8}, 0, 2)), "feasible") << "when job 1000 has ended";
  EXPECT_EQ(
      why(cluster.job(2, {.gpus = 8}, 0, 3)),
      "kInfeasible: the job can never start: it needs 3 nodes, and 2 could hold it; ask for less, or add nodes first");
  EXPECT_EQ(
      why(cluster.job(3, {.cpus = 64, .gpus = 8})),
      "kInfeasible: the job can never start: no single node has 64 CPUs and 8 GPUs in total; ask for less, or add "
      "nodes first");
  EXPECT_EQ(
      why(cluster.job(4, {.custom = {{"licence", 1}}})),
      "kInfeasible: the job can never start: it needs 1 licence on a node, and no node has any; ask for less, or add "
      "nodes first");
  cluster.job(5, {.gpus = 1}).labels = {{"zone", "west"}};
  EXPECT_EQ(why(cluster.queue.back()),
            "kInfeasible: the job can never start: no node with the label zone=west exists; ask for less, or add nodes "
            "first");
  cluster.job(6, {.gpus = 1}).node_names = {"x"};
  EXPECT_EQ(why(cluster.queue.back()),
            "kInfeasible: the job can never start: the cluster has no node \"x\"; ask for less, or add nodes first");
  EXPECT_EQ(why(cluster.job(7, {.gpus = 1}, 0, 0)), "kInvalidArgument: nodes: expected at least 1, got 0");
  cluster.view.nodes[0].takes_jobs = false;
  EXPECT_EQ(why(cluster.job(8, {.gpus = 8}, 0, 2)), "feasible") << "a draining node may come back";
}

TEST(CheckFeasible, EmptyClusterIsNotInfeasible) {
  PlannedQueue cluster;
  cluster.job(1, {.gpus = 1});
  const auto checked = check_feasible(cluster.view, cluster.queue[0]);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kUnavailable);
  const Plan plan = cluster.planned();
  EXPECT_EQ(wait_kind_of(plan, 1), WaitKind::kNoRoom);
  EXPECT_EQ(wait_text_of(plan, 1), "waits for nodes: the cluster has no node");
}

}  // namespace
}  // namespace volador::jobs
