// Pools, limits of projects and preemption in the job planner.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "jobs/queue/job_planner.h"
#include "jobs/queue/start_forecast.h"
#include "runtime/resources.h"

namespace volador::jobs {
namespace {

constexpr int64_t kPolicyMinute = 60'000;
constexpr int64_t kPolicyNow = 1'000 * kPolicyMinute;

ResourceSet policy_amounts(double gpus, double cpus = 0) { return *ResourceSet::from({.cpus = cpus, .gpus = gpus}); }

// A cluster and a queue, built up by a test. Jobs get numbers and submission times in the order of the calls.
struct PolicyQueue {
  ClusterView view;
  std::vector<QueuedJob> queue;
  PlannerOptions options;
  JobNumber last = 0;

  void node(const std::string& name, double gpus, const std::string& pool = "default") {
    PlanNode node{.name = name, .labels = {}, .total = policy_amounts(gpus, 64), .free = policy_amounts(gpus, 64)};
    node.pool = pool;
    view.nodes.push_back(node);
  }
  PlanNode& at(const std::string& name) { return *std::ranges::find(view.nodes, name, &PlanNode::name); }

  RunningJob& runs(const std::string& name, double gpus, JobPriority priority = JobPriority::kNormal,
                   int64_t limit_ms = 0) {
    at(name).free -= policy_amounts(gpus);
    RunningJob& job = view.running.emplace_back();
    job.number = 100 + view.running.size();
    job.started_ms = kPolicyNow - kPolicyMinute + static_cast<int64_t>(view.running.size());
    job.limit_ms = limit_ms;
    job.project = "vision";
    job.held = {{name, policy_amounts(gpus)}};
    job.priority = priority;
    return job;
  }

  QueuedJob& job(double gpus, JobPriority priority = JobPriority::kNormal, int nodes = 1, int64_t limit_ms = 0) {
    QueuedJob& job = queue.emplace_back();
    job.number = ++last;
    job.priority = priority;
    job.project = "vision";
    job.nodes = nodes;
    job.per_node = policy_amounts(gpus);
    job.submitted_ms = kPolicyNow - kPolicyMinute + static_cast<int64_t>(last);
    job.limit_ms = limit_ms;
    return job;
  }

  Plan planned() const { return plan(view, queue, kPolicyNow, options); }
};

// "1@a 2@b,c; 101 ends for 3".
std::string decisions_of(const Plan& plan) {
  std::vector<std::string> parts;
  for (const auto& [number, placement] : plan.start) {
    parts.push_back(fmt::format("{}@{}", number, fmt::join(placement.nodes, ",")));
  }
  std::string text = fmt::format("{}", fmt::join(parts, " "));
  for (const Preemption& one : plan.preempt) text += fmt::format("; {} ends for {}", one.victim, one.by);
  return text;
}

std::string policy_wait_text(const Plan& plan, JobNumber number) {
  const Wait* wait = plan.wait_of(number);
  return wait == nullptr ? "does not wait" : wait->text();
}

// ---- Pools.

TEST(QueuePools, JobsStartOnlyInTheirPool) {
  PolicyQueue cluster;
  cluster.node("a", 8);
  cluster.node("b", 8, "small");
  cluster.job(4);
  cluster.job(2).pool = "small";
  cluster.job(1).pool = "large";
  const Plan plan = cluster.planned();
  EXPECT_EQ(decisions_of(plan), "1@a 2@b");
  EXPECT_EQ(policy_wait_text(plan, 3), "can never start: no node of pool large exists");
}

TEST(QueuePools, BlockedJobDelaysOnlyItsPool) {
  PolicyQueue cluster;
  cluster.node("a", 8);
  cluster.node("b", 8, "small");
  cluster.runs("a", 4);
  cluster.runs("b", 4);
  cluster.job(8);
  cluster.job(2);
  cluster.job(2).pool = "small";
  cluster.job(8).pool = "small";
  cluster.job(1).pool = "small";
  const Plan plan = cluster.planned();
  EXPECT_EQ(decisions_of(plan), "3@b");
  ASSERT_EQ(plan.blocked.size(), 2u);
  EXPECT_EQ(plan.blocked[0].number, 1u);
  EXPECT_EQ(plan.blocked[0].pool, "default");
  EXPECT_EQ(plan.blocked[1].number, 4u);
  EXPECT_EQ(plan.blocked[1].pool, "small");
  EXPECT_EQ(plan.wait_of(2)->other, 1u);
  EXPECT_EQ(plan.wait_of(5)->other, 4u);
  EXPECT_EQ(plan.wait_of(5)->ahead, 1) << "in its pool";
}

TEST(QueuePools, NodeOfAnotherPoolIsRefused) {
  PolicyQueue cluster;
  cluster.node("a", 8, "small");
  cluster.job(1).node_names = {"a"};
  const auto refused = check_feasible(cluster.view, cluster.queue[0]);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "the job can never start: node \"a\" belongs to pool small, and the job to pool default; ask for less, or "
            "add nodes first");
}

// ---- Limits.

TEST(ProjectLimits, JobOverTheLimitWaitsAndBlocksNobody) {
  PolicyQueue cluster;
  cluster.node("a", 32);
  cluster.runs("a", 12);
  cluster.options.limits["vision"] = policy_amounts(16);
  cluster.job(8);
  cluster.job(4);
  cluster.job(1);
  cluster.job(16).project = "speech";
  const Plan plan = cluster.planned();
  EXPECT_EQ(decisions_of(plan), "4@a 2@a");
  EXPECT_TRUE(plan.blocked.empty());
  EXPECT_EQ(plan.wait_of(1)->kind, WaitKind::kProjectLimit);
  EXPECT_EQ(policy_wait_text(plan, 1), "project vision may hold 16 GPUs and holds 16; this job needs 8");
  EXPECT_EQ(policy_wait_text(plan, 3), "project vision may hold 16 GPUs and holds 16; this job needs 1");
  EXPECT_EQ(plan.wait_of(3)->held, 16 * kUnit);
}

TEST(ProjectLimits, GangCountsOnAllItsNodes) {
  PolicyQueue cluster;
  for (const char* name : {"a", "b", "c"}) cluster.node(name, 8);
  cluster.options.limits["vision"] = policy_amounts(16);
  cluster.job(6, JobPriority::kNormal, 3);
  cluster.job(8, JobPriority::kNormal, 2);
  const Plan plan = cluster.planned();
  EXPECT_EQ(decisions_of(plan), "2@a,b");
  EXPECT_EQ(plan.wait_of(1)->kind, WaitKind::kNever);
  EXPECT_EQ(policy_wait_text(plan, 1), "can never start: project vision may hold 16 GPUs, and this job needs 18");
  const Forecast foreseen = forecast(cluster.view, cluster.queue, kPolicyNow, cluster.options);
  EXPECT_TRUE(foreseen.jobs[0].never);
  EXPECT_FALSE(foreseen.jobs[1].never);
}

TEST(ProjectLimits, JobAboveTheLimitIsRefused) {
  PolicyQueue cluster;
  cluster.node("a", 8);
  cluster.options.limits["vision"] = policy_amounts(4);
  const QueuedJob& job = cluster.job(8);
  EXPECT_TRUE(check_feasible(cluster.view, job));
  const auto refused = check_feasible(cluster.view, job, cluster.options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInfeasible);
  EXPECT_EQ(refused.error().message,
            "project vision may hold 4 GPUs, and this job needs 8 GPUs; ask an operator to raise the limit of the "
            "project, or ask for less");
}

TEST(ProjectLimits, BlockedJobKeepsItsPartOfTheLimit) {
  PolicyQueue cluster;
  cluster.node("a", 8);
  cluster.node("b", 4);
  cluster.runs("a", 4, JobPriority::kNormal, 10 * kPolicyMinute).project = "speech";
  cluster.options.limits["vision"] = policy_amounts(9);
  cluster.job(8);                                              // Waits for node a.
  cluster.job(2);                                              // Fits on node b, but leaves only 7 GPUs of the limit.
  cluster.job(2, JobPriority::kNormal, 1, 5 * kPolicyMinute);  // Ends before.
  cluster.job(1);
  const Plan plan = cluster.planned();
  EXPECT_EQ(plan.blocked.at(0).number, 1u);
  EXPECT_EQ(decisions_of(plan), "3@a 4@b");
  ASSERT_NE(plan.wait_of(2), nullptr);
  EXPECT_EQ(plan.wait_of(2)->kind, WaitKind::kReserved);
}

TEST(ProjectLimits, ForecastKeepsTheLimit) {
  PolicyQueue cluster;
  cluster.node("a", 8);
  cluster.options.limits["vision"] = policy_amounts(4);
  for (int i = 0; i < 3; ++i) cluster.job(4, JobPriority::kNormal, 1, kPolicyMinute);
  const Forecast foreseen = forecast(cluster.view, cluster.queue, kPolicyNow, cluster.options);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(foreseen.jobs[static_cast<size_t>(i)].likely_ms, kPolicyNow + i * kPolicyMinute);
    EXPECT_EQ(foreseen.jobs[static_cast<size_t>(i)].latest_ms, kPolicyNow + i * kPolicyMinute);
  }
}

// ---- Preemption.

struct PreemptingQueue : PolicyQueue {
  PreemptingQueue() { options.preempt_from = JobPriority::kUrgent; }
};

TEST(QueuePreemption, NothingIsPreemptedUnlessItIsAllowed) {
  PreemptingQueue cluster;
  cluster.node("a", 8);
  cluster.runs("a", 8);
  cluster.job(8, JobPriority::kUrgent);
  EXPECT_EQ(decisions_of(cluster.planned()), "; 101 ends for 1");
  cluster.options.preempt_from = JobPriority::kVeryUrgent;
  EXPECT_EQ(decisions_of(cluster.planned()), "");
  cluster.options.preempt_from.reset();
  EXPECT_EQ(decisions_of(cluster.planned()), "");
}

TEST(QueuePreemption, LowestPriorityThenNewestStart) {
  PreemptingQueue cluster;
  cluster.node("a", 8);
  cluster.runs("a", 2, JobPriority::kNormal);
  cluster.runs("a", 2, JobPriority::kNormal);
  cluster.runs("a", 2, JobPriority::kUrgent);
  cluster.runs("a", 2, JobPriority::kVeryUrgent);
  cluster.job(2, JobPriority::kVeryUrgent);
  EXPECT_EQ(decisions_of(cluster.planned()), "; 102 ends for 1");
  cluster.queue[0].per_node = policy_amounts(6);
  EXPECT_EQ(decisions_of(cluster.planned()), "; 102 ends for 1; 101 ends for 1; 103 ends for 1");
  cluster.queue[0].per_node = policy_amounts(7);
  EXPECT_EQ(decisions_of(cluster.planned()), "") << "all or nothing";
}

TEST(QueuePreemption, SparesVictimsThatProveSuperfluous) {
  PreemptingQueue cluster;
  cluster.node("a", 8);
  cluster.node("b", 8);
  cluster.runs("b", 8);  // 101
  cluster.runs("a", 4);  // 102
  cluster.runs("a", 4, JobPriority::kUrgent);
  cluster.job(8, JobPriority::kUrgent);
  EXPECT_EQ(decisions_of(cluster.planned()), "; 101 ends for 1") << "102 is newer, but does not free a node";
}

TEST(QueuePreemption, LeavingJobsCountAndTheirRoomIsKept) {
  PreemptingQueue cluster;
  cluster.node("a", 8);
  cluster.node("b", 8);
  cluster.runs("a", 6).leaving = true;
  cluster.runs("b", 8);
  cluster.job(8, JobPriority::kUrgent);
  cluster.job(1, JobPriority::kNormal, 1, 1);
  Plan plan = cluster.planned();
  EXPECT_EQ(decisions_of(plan), "") << "neither a further victim nor a start in the reserved room";
  EXPECT_EQ(plan.blocked.at(0).nodes, std::vector<std::string>{"a"});
  EXPECT_EQ(plan.blocked.at(0).likely_ms, kPolicyNow + 1);
  cluster.view.running[0].ends_ms = kPolicyNow + 500;
  plan = cluster.planned();
  EXPECT_EQ(plan.blocked.at(0).likely_ms, kPolicyNow + 500);
  const Forecast foreseen = forecast(cluster.view, cluster.queue, kPolicyNow, cluster.options);
  EXPECT_EQ(foreseen.jobs[0].likely_ms, kPolicyNow + 500);
  cluster.queue[0].per_node = policy_amounts(7);
  EXPECT_EQ(decisions_of(cluster.planned()), "2@a") << "1 GPU is left beside the blocked job";
  cluster.view.running.erase(cluster.view.running.begin());
  cluster.at("a").free = cluster.at("a").total;
  EXPECT_EQ(decisions_of(cluster.planned()), "1@a 2@a");
}

TEST(QueuePreemption, VictimsAreInThePoolAndOnAllowedNodes) {
  PreemptingQueue cluster;
  cluster.node("a", 8, "small");
  cluster.node("b", 8);
  cluster.node("c", 8);
  cluster.runs("b", 8);
  cluster.runs("c", 8);
  cluster.runs("a", 8);
  cluster.at("c").takes_jobs = false;
  cluster.job(8, JobPriority::kUrgent);
  EXPECT_EQ(decisions_of(cluster.planned()), "; 101 ends for 1");
}

TEST(QueuePreemption, JobOverItsLimitPreemptsNothing) {
  PreemptingQueue cluster;
  cluster.node("a", 8);
  cluster.runs("a", 8);
  cluster.options.limits["vision"] = policy_amounts(12);
  cluster.job(8, JobPriority::kUrgent);
  cluster.job(4, JobPriority::kUrgent);
  EXPECT_EQ(decisions_of(cluster.planned()), "; 101 ends for 2");
  cluster.queue.pop_back();
  EXPECT_EQ(decisions_of(cluster.planned()), "");
}

TEST(QueuePreemption, ForecastCountsPreemptions) {
  PreemptingQueue cluster;
  cluster.node("a", 8);
  cluster.runs("a", 8, JobPriority::kNormal, 60 * kPolicyMinute);
  cluster.job(8, JobPriority::kUrgent, 1, kPolicyMinute);
  const Forecast foreseen = forecast(cluster.view, cluster.queue, kPolicyNow, cluster.options);
  EXPECT_EQ(foreseen.jobs[0].likely_ms, kPolicyNow + 1);
  EXPECT_EQ(foreseen.jobs[0].latest_ms, kPolicyNow + 59 * kPolicyMinute + 1) << "101 ends at its limit";
}

// ---- Tables of Determined's priority scheduler. Its priority 40 is urgent here, 45 and 50 are normal.

TEST(DeterminedTables, PriorityOff) {
  PolicyQueue cluster;
  cluster.node("a", 4);
  cluster.node("b", 4);
  cluster.job(4, JobPriority::kNormal, 1, 9 * kPolicyMinute);
  cluster.job(1, JobPriority::kNormal, 1, 9 * kPolicyMinute);
  cluster.job(0, JobPriority::kNormal, 1, 9 * kPolicyMinute);
  cluster.job(1, JobPriority::kUrgent, 1, 10 * kPolicyMinute);
  cluster.job(0, JobPriority::kUrgent, 1, 10 * kPolicyMinute);
  cluster.job(4, JobPriority::kUrgent, 1, 10 * kPolicyMinute);
  const Plan plan = cluster.planned();
  EXPECT_EQ(plan.start.size(), 5u);
  EXPECT_NE(plan.wait_of(1), nullptr) << "all but the job of lower priority with 4 GPUs";
}

TEST(DeterminedTables, PriorityWait) {
  PolicyQueue cluster;
  cluster.node("a", 4);
  cluster.job(1);
  for (const double gpus : {1.0, 1.0, 1.0, 2.0}) cluster.job(gpus, JobPriority::kUrgent);
  EXPECT_EQ(decisions_of(cluster.planned()), "2@a 3@a 4@a");
  const std::vector<QueuedJob> rest{cluster.queue[0], cluster.queue[4]};
  cluster.queue = rest;
  for (int i = 0; i < 3; ++i) cluster.runs("a", 1, JobPriority::kUrgent);
  EXPECT_EQ(decisions_of(cluster.planned()), "");
  cluster.view.running.clear();
  cluster.at("a").free = cluster.at("a").total;
  EXPECT_EQ(decisions_of(cluster.planned()), "5@a 1@a");
}

TEST(DeterminedTables, PriorityPreempt) {
  PreemptingQueue cluster;
  cluster.node("a", 4);
  cluster.node("b", 4);
  cluster.runs("a", 4);
  cluster.runs("b", 4, JobPriority::kUrgent);
  cluster.job(4, JobPriority::kUrgent);
  cluster.job(4, JobPriority::kUrgent, 2);
  cluster.job(1);
  EXPECT_EQ(decisions_of(cluster.planned()), "; 101 ends for 1");
}

TEST(DeterminedTables, PriorityAuxPreempt) {
  PreemptingQueue cluster;
  const ResourceSet aux = *ResourceSet::from({.custom = {{"aux", 1}}});
  for (const char* name : {"a", "b"}) {
    cluster.node(name, 0);
    cluster.at(name).total = aux;
  }
  for (const char* name : {"a", "b"}) {
    cluster.runs(name, 0, name[0] == 'a' ? JobPriority::kNormal : JobPriority::kUrgent).held = {{name, aux}};
    cluster.at(name).free = {};
  }
  cluster.job(0).per_node = aux;
  cluster.job(0, JobPriority::kUrgent).per_node = aux;
  EXPECT_EQ(decisions_of(cluster.planned()), "; 101 ends for 2");
}

TEST(DeterminedTables, PriorityPositionOversize) {
  PreemptingQueue cluster;
  cluster.node("a", 4);
  cluster.node("b", 4);
  cluster.runs("a", 1, JobPriority::kUrgent);
  cluster.runs("b", 4);
  cluster.job(4, JobPriority::kUrgent, 2);
  EXPECT_EQ(decisions_of(cluster.planned()), "") << "job 102 alone does not free enough";
}

// ---- Random clusters.

struct PolicyMode {
  bool limits = false;
  bool preempt = false;
  int projects = 1;
};

// Cluster in virtual time. Jobs that are preempted return to the queue. Checks each plan.
class PolicySimulation {
 public:
  PolicySimulation(unsigned seed, PolicyMode mode) : random_(seed), mode_(mode) {
    const int count = 2 + below(6);
    for (int i = 0; i < count; ++i) {
      cluster_.node(fmt::format("n{}", i), 4 + 4 * below(2), i % 3 == 2 ? "small" : "default");
    }
    if (mode.preempt) cluster_.options.preempt_from = JobPriority::kUrgent;
    for (int i = 0; mode.limits && i < mode.projects; ++i) {
      cluster_.options.limits[fmt::format("p{}", i)] = policy_amounts(6 + below(8));
    }
    left_ = 40 + below(20);
  }

  void run() {
    for (int step = 0; step < 3000 && (left_ > 0 || !cluster_.queue.empty()); ++step) {
      if (left_ > 0 && below(2) == 0) submit();
      plan_and_apply();
      if (testing::Test::HasFailure()) return;
      now_ += 1 + below(60);
      end_jobs();
    }
    EXPECT_TRUE(cluster_.queue.empty()) << "a job starves";
  }

  int preemptions = 0;
  int limited = 0;
  int blocked_in_both = 0;
  int elastic = 0;  // Jobs that started on fewer nodes than they take.
  int shared = 0;   // Jobs that started with several ranks on a node.

 private:
  int below(unsigned limit) { return static_cast<int>(random_() % limit); }

  void submit() {
    --left_;
    QueuedJob& job = cluster_.job(below(4), JobPriority::kNormal, below(4) == 0 ? 2 : 1);
    job.per_node.set("cpus", (1 + below(20)) * kUnit);
    if (below(3) == 0) job.per_node.set("gpus", 4 * kUnit);
    job.submitted_ms = now_;
    job.project = fmt::format("p{}", below(static_cast<unsigned>(mode_.projects)));
    job.pool = below(3) == 0 ? "small" : "default";
    if (below(5) == 0) job.nodes = (job.min_nodes = job.nodes) + 1 + below(2);
    job.shares_nodes = below(3) == 0;
    if (mode_.preempt && below(4) == 0) job.priority = JobPriority::kUrgent;
    run_ms_[job.number] = 1 + below(1500);
    job.limit_ms = run_ms_[job.number] + below(400);
    job.predicted_ms = below(2) == 0 ? 0 : std::min<int64_t>(job.limit_ms, 1 + below(500));
    if (!check_feasible(cluster_.view, job, cluster_.options)) cluster_.queue.pop_back();
  }

  ResourceSet held_by(const std::string& project) const {
    ResourceSet sum;
    for (const RunningJob& job : cluster_.view.running) {
      if (job.project != project) continue;
      for (const auto& [node, held] : job.held) sum += held;
    }
    return sum;
  }

  // How many ranks of the job fit in its pool with what these running jobs hold.
  int fitting_with(const QueuedJob& job, const std::set<JobNumber>& ended) const {
    int fitting = 0;
    for (const PlanNode& node : cluster_.view.nodes) {
      ResourceSet free = node.free;
      for (const RunningJob& run : cluster_.view.running) {
        if (!ended.contains(run.number)) continue;
        for (const auto& [name, held] : run.held) {
          if (name == node.name) free += held;
        }
      }
      if (node.pool != job.pool) continue;
      for (int ranks = 0; ranks < (job.shares_nodes ? job.nodes : 1) && job.per_node.fits_in(free); ++ranks) {
        free -= job.per_node;
        ++fitting;
      }
    }
    return fitting;
  }

  std::set<JobNumber> leaving() const {
    std::set<JobNumber> result;
    for (const RunningJob& run : cluster_.view.running) {
      if (run.leaving) result.insert(run.number);
    }
    return result;
  }

  void check_preemption(const Plan& plan) {
    std::map<JobNumber, std::set<JobNumber>> victims;
    for (const Preemption& one : plan.preempt) EXPECT_TRUE(victims[one.by].insert(one.victim).second);
    for (const auto& [by, of_one] : victims) {
      ++preemptions;
      const QueuedJob& job = *std::ranges::find(cluster_.queue, by, &QueuedJob::number);
      EXPECT_GE(job.priority, *cluster_.options.preempt_from);
      EXPECT_TRUE(std::ranges::any_of(plan.blocked, [&](const BlockedJob& one) { return one.number == by; }));
      for (const JobNumber victim : of_one) {
        const RunningJob& run = *std::ranges::find(cluster_.view.running, victim, &RunningJob::number);
        EXPECT_LT(run.priority, job.priority);
        EXPECT_FALSE(run.leaving);
      }
      std::set<JobNumber> ended = leaving();
      EXPECT_LT(fitting_with(job, ended), job.least_nodes()) << "the leaving jobs suffice for job " << by;
      ended.insert(of_one.begin(), of_one.end());
      EXPECT_GE(fitting_with(job, ended), job.least_nodes()) << "not enough is freed for job " << by;
      for (const JobNumber victim : of_one) {
        ended.erase(victim);
        EXPECT_LT(fitting_with(job, ended), job.least_nodes()) << "victim " << victim << " is superfluous";
        ended.insert(victim);
      }
      if (!mode_.limits && mode_.projects == 1) {
        EXPECT_EQ(++rounds_[by], 1) << "job " << by << " preempts twice";
      }
      for (const auto& [number, placement] : plan.start) EXPECT_NE(number, by);
    }
  }

  // What is freed stays reserved for the blocked job, unless shares or limits bring another job of high priority ahead.
  void check_reserved(const Plan& plan, const BlockedJob& blocked) {
    if (mode_.limits || mode_.projects > 1) return waits_for_leaving_.clear();
    const QueuedJob& job = *std::ranges::find(cluster_.queue, blocked.number, &QueuedJob::number);
    if (!cluster_.options.preempt_from || job.priority < *cluster_.options.preempt_from) return;
    std::set<JobNumber> ended = leaving();
    for (const Preemption& one : plan.preempt) ended.insert(one.victim);
    const bool expected =
        std::ranges::any_of(plan.preempt, [&](const Preemption& one) { return one.by == job.number; });
    if (expected || waits_for_leaving_.contains(job.number)) {
      EXPECT_GE(fitting_with(job, ended), job.least_nodes()) << "job " << job.number << " lost its room";
      waits_for_leaving_.insert(job.number);
    }
  }

  // At the latest time, the limit has room for the blocked job even if all jobs run to their limits.
  void check_limit_at_latest(const BlockedJob& blocked) {
    const QueuedJob& job = *std::ranges::find(cluster_.queue, blocked.number, &QueuedJob::number);
    const auto limit = cluster_.options.limits.find(job.project);
    if (limit == cluster_.options.limits.end() || blocked.latest_ms == 0) return;
    Amount gpus = job.per_node.get("gpus") * job.least_nodes();
    for (const RunningJob& run : cluster_.view.running) {
      if (run.project != job.project || run.started_ms + run.limit_ms <= blocked.latest_ms) continue;
      if (pool_of_[run.number] != job.pool) return;  // Other pools do not respect it.
      for (const auto& [node, held] : run.held) gpus += held.get("gpus");
    }
    EXPECT_LE(gpus, limit->second.get("gpus")) << "job " << job.number;
  }

  void plan_and_apply() {
    const Plan plan = jobs::plan(cluster_.view, cluster_.queue, now_, cluster_.options);
    ASSERT_EQ(plan.start.size() + plan.waits.size(), cluster_.queue.size());
    const std::vector<QueuedJob> before = cluster_.queue;
    for (const auto& [number, placement] : plan.start) start(number, placement);
    check_preemption(plan);
    if (plan.blocked.size() == 2) ++blocked_in_both;
    for (const BlockedJob& blocked : plan.blocked) {
      check_reserved(plan, blocked);
      check_limit_at_latest(blocked);
      QueuedJob& job = *std::ranges::find(cluster_.queue, blocked.number, &QueuedJob::number);
      EXPECT_EQ(job.pool, blocked.pool);
      if (job.promised_ms == 0) job.promised_ms = blocked.likely_ms;
      if (blocked.latest_ms == 0) continue;
      const auto known = latest_.try_emplace(job.number, blocked.latest_ms).first;
      known->second = std::min(known->second, blocked.latest_ms);
    }
    for (const Wait& wait : plan.waits) {
      if (wait.kind != WaitKind::kProjectLimit) continue;
      ++limited;
      EXPECT_GT(wait.held + wait.needed, wait.limit);
    }
    for (const Preemption& one : plan.preempt) {
      std::ranges::find(cluster_.view.running, one.victim, &RunningJob::number)->leaving = true;
      leaves_at_[one.victim] = now_ + 1 + below(80);
    }
  }

  void start(JobNumber number, const Placement& placement) {
    const auto at = std::ranges::find(cluster_.queue, number, &QueuedJob::number);
    const QueuedJob job = *at;
    cluster_.queue.erase(at);
    const auto count = static_cast<int>(placement.nodes.size());
    const std::set different(placement.nodes.begin(), placement.nodes.end());
    ASSERT_TRUE(job.shares_nodes || different.size() == placement.nodes.size());
    shared += different.size() < placement.nodes.size() ? 1 : 0;
    ASSERT_GE(count, job.least_nodes());
    ASSERT_LE(count, job.nodes);
    elastic += count < job.nodes ? 1 : 0;
    RunningJob run{.number = number,
                   .started_ms = now_,
                   .limit_ms = job.limit_ms,
                   .predicted_ms = job.predicted_ms,
                   .project = job.project,
                   .held = {},
                   .priority = job.priority};
    for (const std::string& name : placement.nodes) {
      PlanNode& node = cluster_.at(name);
      ASSERT_EQ(node.pool, job.pool);
      ASSERT_TRUE(job.per_node.fits_in(node.free));
      node.free -= job.per_node;
      run.held.emplace_back(name, job.per_node);
    }
    cluster_.view.running.push_back(run);
    started_[number] = job;
    pool_of_[number] = job.pool;
    waits_for_leaving_.erase(number);
    if (const auto limit = cluster_.options.limits.find(job.project); limit != cluster_.options.limits.end()) {
      EXPECT_LE(held_by(job.project).get("gpus"), limit->second.get("gpus")) << job.project;
    }
    if (!mode_.limits && !mode_.preempt && mode_.projects == 1 && latest_.contains(number)) {
      EXPECT_LE(now_, latest_[number] + 60) << "job " << number << " is late";  // A step takes up to 60 ms.
    }
  }

  void end_jobs() {
    std::erase_if(cluster_.view.running, [&](const RunningJob& run) {
      const bool ends = run.started_ms + run_ms_[run.number] <= now_;
      const bool leaves = run.leaving && leaves_at_[run.number] <= now_;
      if (!ends && !leaves) return false;
      for (const auto& [name, held] : run.held) cluster_.at(name).free += held;
      if (!ends) {
        cluster_.queue.push_back(started_[run.number]);
        cluster_.queue.back().promised_ms = 0;
      }
      return true;
    });
  }

  std::mt19937 random_;
  PolicyMode mode_;
  PolicyQueue cluster_;
  int left_ = 0;
  int64_t now_ = kPolicyNow;
  std::map<JobNumber, int64_t> run_ms_;
  std::map<JobNumber, QueuedJob> started_;
  std::map<JobNumber, std::string> pool_of_;
  std::map<JobNumber, int64_t> latest_;     // The smallest BlockedJob::latest_ms.
  std::map<JobNumber, int64_t> leaves_at_;  // Time at which a victim leaves.
  std::map<JobNumber, int> rounds_;         // Passes in which a job preempted.
  std::set<JobNumber> waits_for_leaving_;
};

TEST(QueuePolicies, RandomClustersKeepTheRules) {
  int preemptions = 0, limited = 0, blocked_in_both = 0, elastic = 0, shared = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    PolicySimulation simulation(
        seed, {.limits = seed % 4 == 1 || seed % 4 == 3, .preempt = seed % 4 >= 2, .projects = seed % 3 == 0 ? 3 : 1});
    simulation.run();
    ASSERT_FALSE(testing::Test::HasFailure());
    preemptions += simulation.preemptions;
    limited += simulation.limited;
    blocked_in_both += simulation.blocked_in_both;
    elastic += simulation.elastic;
    shared += simulation.shared;
  }
  EXPECT_GT(elastic, 200);
  EXPECT_GT(shared, 100);
  EXPECT_GT(preemptions, 100);
  EXPECT_GT(limited, 1000);
  EXPECT_GT(blocked_in_both, 500);
}

// With a project of its own in each pool, the plan of all pools consists of the plans of each.
TEST(QueuePolicies, RandomPoolsAreIndependent) {
  size_t starts = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(seed);
    const auto below = [&](unsigned limit) { return static_cast<int>(random() % limit); };
    PolicyQueue all;
    all.options.preempt_from = JobPriority::kUrgent;
    all.options.limits["x"] = policy_amounts(10);
    for (int i = 0; i < 8; ++i) all.node(fmt::format("n{}", i), 8, i % 2 == 0 ? "x" : "y");
    for (int i = 0; i < 16; ++i) {
      const std::string name = fmt::format("n{}", i % 8);
      RunningJob& run = all.runs(name, 1 + below(4), JobPriority::kNormal, below(2) * 5 * kPolicyMinute);
      run.project = i % 2 == 0 ? "x" : "y";
    }
    for (int i = 0; i < 30; ++i) {
      QueuedJob& job = all.job(1 + below(8), below(5) == 0 ? JobPriority::kUrgent : JobPriority::kNormal, 1 + below(2),
                               (1 + below(9)) * kPolicyMinute);
      job.pool = job.project = below(2) == 0 ? "x" : "y";
    }
    const Plan together = all.planned();
    std::map<JobNumber, std::string> expected;
    for (const char* pool : {"x", "y"}) {
      PolicyQueue one = all;
      std::erase_if(one.view.nodes, [&](const PlanNode& node) { return node.pool != pool; });
      std::erase_if(one.view.running, [&](const RunningJob& run) { return run.project != pool; });
      std::erase_if(one.queue, [&](const QueuedJob& job) { return job.pool != pool; });
      const Plan alone = one.planned();
      for (const auto& [number, placement] : alone.start) expected[number] = fmt::format("{}", placement.nodes);
      for (const Wait& wait : alone.waits) expected[wait.number] = wait.text();
      for (const Preemption& victim : alone.preempt) expected[victim.victim] = fmt::format("ends for {}", victim.by);
    }
    std::map<JobNumber, std::string> got;
    for (const auto& [number, placement] : together.start) got[number] = fmt::format("{}", placement.nodes);
    for (const Wait& wait : together.waits) got[wait.number] = wait.text();
    for (const Preemption& victim : together.preempt) got[victim.victim] = fmt::format("ends for {}", victim.by);
    EXPECT_EQ(got, expected);
    starts += together.start.size();
    if (HasFailure()) break;
  }
  EXPECT_GT(starts, 500u);
}

}  // namespace
}  // namespace volador::jobs
