#include "jobs/queue/incremental_planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "jobs/queue/job_planner.h"
#include "jobs/queue/run_time_predictor.h"
#include "jobs/queue/start_forecast.h"
#include "runtime/resources.h"

namespace volador::jobs {
namespace {

std::string lines_of(const std::vector<Wait>& waits) {
  std::string text;
  for (const Wait& wait : waits) {
    text += fmt::format("{} kind {} ahead {} other {}: {}\n", wait.number, static_cast<int>(wait.kind), wait.ahead,
                        wait.other, wait.text());
  }
  return text;
}

std::string lines_of(const Plan& plan) {
  std::string text;
  for (const auto& [number, placement] : plan.start) {
    text += fmt::format("start {} on {}\n", number, fmt::join(placement.nodes, ","));
  }
  for (const BlockedJob& blocked : plan.blocked) {
    text += fmt::format("blocked {} in {} likely {} latest {} guarded {} on {} or {}\n", blocked.number, blocked.pool,
                        blocked.likely_ms, blocked.latest_ms, blocked.guarded, fmt::join(blocked.nodes, ","),
                        fmt::join(blocked.latest_nodes, ","));
  }
  for (const Preemption& one : plan.preempt) text += fmt::format("{} ends for {}\n", one.victim, one.by);
  return text;
}

std::string lines_of(const Forecast& forecast) {
  std::string text;
  for (const StartForecast& job : forecast.jobs) {
    text += fmt::format("{} likely {} latest {} ahead {} never {}\n", job.number, job.likely_ms, job.latest_ms,
                        job.ahead, job.never);
  }
  return text;
}

// A random history of a cluster, applied to an incremental planner and to plain vectors.
class RandomHistory {
 public:
  explicit RandomHistory(unsigned seed) : random_(seed), planner_(random_options()) {
    const int count = 2 + below(7);
    for (int i = 0; i < count; ++i) nodes_.push_back(random_node(i));
    planner_.set_nodes(nodes_);
  }

  void step() {
    now_ += below(10) == 0 ? 0 : below(300);
    if (below(60) == 0) now_ -= 500;  // The wall clock was set back.
    for (int i = below(4); i > 0; --i) submit();
    if (below(3) == 0 && !running_.empty()) end(static_cast<size_t>(below(static_cast<unsigned>(running_.size()))));
    if (below(6) == 0 && !queue_.empty()) change_queued();
    if (below(8) == 0 && !running_.empty()) change_running();
    if (below(20) == 0) change_nodes();
    if (below(40) == 0) planner_.set_options(random_options());
    if (below(3) == 0) record_run();
    planner_.set_nodes(nodes_);
    plan();
  }

  size_t started() const { return started_; }
  size_t preempted() const { return preempted_; }

 private:
  int below(unsigned limit) { return static_cast<int>(random_() % limit); }
  ResourceSet random_amounts(int cpus, int gpus) {
    ResourceSet amounts;
    amounts.set("cpus", cpus * kUnit);
    amounts.set("gpus", gpus * kUnit);
    return amounts;
  }

  PlannerOptions random_options() {
    PlannerOptions options;
    options.guard_ms = 2000;
    if (below(3) == 0) options.urgent_quota["p0"] = below(3);
    if (below(3) == 0) options.weights["p1"] = 2;
    if (below(2) == 0) options.limits["p0"] = random_amounts(10 + below(10), 4 + below(8));
    if (below(2) == 0) options.preempt_from = static_cast<JobPriority>(1 + below(2));
    options.backfill = below(8) > 0;
    return options;
  }

  PlanNode random_node(int index) {
    PlanNode node{.name = fmt::format("n{}", index), .labels = {}};
    node.labels["zone"] = below(2) == 0 ? "a" : "b";
    node.total = random_amounts(8 + 8 * below(3), 4 * below(3));
    if (below(4) == 0) node.total.set(below(2) == 0 ? "licence" : "disk", 2 * kUnit);
    node.free = node.total;
    node.takes_jobs = below(8) > 0;
    node.pool = below(3) == 0 ? "small" : "default";
    return node;
  }

  void submit() {
    QueuedJob job{.number = ++number_,
                  .priority = below(4) == 0 ? static_cast<JobPriority>(below(3)) : JobPriority::kNormal,
                  .project = fmt::format("p{}", below(3)),
                  .owner = fmt::format("u{}", below(4)),
                  .nodes = below(4) == 0 ? 1 + below(3) : 1,
                  .per_node = random_amounts(1 + below(8), below(2) == 0 ? 0 : 1 + below(5)),
                  .submitted_ms = now_ - below(3000),
                  .limit_ms = below(4) == 0 ? 0 : 1 + below(4000),
                  .predicted_ms = below(3) == 0 ? 0 : 1 + below(3000),
                  .node_names = {},
                  .labels = {},
                  .pool = below(3) == 0 ? "small" : "default"};
    if (below(8) == 0) job.labels["zone"] = below(2) == 0 ? "a" : "b";
    if (below(12) == 0) job.node_names = {"n0", "n1"};
    if (below(12) == 0) job.avoids = {"n1", "n2"};
    if (job.nodes > 1 && below(2) == 0) job.min_nodes = 1 + below(static_cast<unsigned>(job.nodes));
    if (below(12) == 0) job.per_node.set(below(2) == 0 ? "licence" : "tape", kUnit);
    job.shares_nodes = job.nodes > 1 && below(2) == 0;
    queue_.push_back(job);
    planner_.put(job);
  }

  void change_queued() {
    const auto at = queue_.begin() + below(static_cast<unsigned>(queue_.size()));
    if (below(2) == 0) {
      EXPECT_TRUE(planner_.erase(at->number));
      EXPECT_FALSE(planner_.erase(at->number));
      queue_.erase(at);
      return;
    }
    at->priority = static_cast<JobPriority>(below(3));
    at->limit_ms += 500;
    planner_.put(*at);
  }

  void change_running() {
    RunningJob& job = running_[static_cast<size_t>(below(static_cast<unsigned>(running_.size())))];
    if (below(2) == 0) {
      job.limit_ms += 700;
    } else {
      job.leaving = true;
      job.ends_ms = below(2) == 0 ? 0 : now_ + below(500);
    }
    planner_.put_running(job);
  }

  void change_nodes() {
    if (below(2) == 0) {
      PlanNode& node = nodes_[static_cast<size_t>(below(static_cast<unsigned>(nodes_.size())))];
      node.takes_jobs = !node.takes_jobs;
    } else {
      nodes_.push_back(random_node(static_cast<int>(nodes_.size())));
    }
  }

  void record_run() {
    const std::string owner = fmt::format("u{}", below(4)), project = fmt::format("p{}", below(3));
    predictor_.record(owner, project, 1 + below(2000), 0);
    planner_.repredict(predictor_, owner, project);
    for (QueuedJob& job : queue_) {
      if (job.owner != owner && job.project != project) continue;
      job.predicted_ms = predictor_.predict(job.owner, job.project, job.limit_ms);
    }
  }

  void give(const RunningJob& job, bool back) {
    for (const auto& [name, held] : job.held) {
      PlanNode& node = *std::ranges::find(nodes_, name, &PlanNode::name);
      back ? node.free += held : node.free -= held;
    }
  }

  void end(size_t at) {
    give(running_[at], true);
    EXPECT_TRUE(planner_.erase_running(running_[at].number));
    running_.erase(running_.begin() + static_cast<ptrdiff_t>(at));
  }

  void plan() {
    const ClusterView view{.nodes = nodes_, .running = running_};
    const Plan expected = jobs::plan(view, queue_, now_, planner_.options());
    const Plan made = planner_.plan(now_);
    ASSERT_EQ(lines_of(made), lines_of(expected));
    ASSERT_EQ(lines_of(planner_.plan(now_)), lines_of(expected)) << "a plan changes nothing";
    ASSERT_EQ(lines_of(planner_.waits(now_)), lines_of(expected.waits));
    if (below(4) == 0) check_forecast(view);
    for (const BlockedJob& blocked : made.blocked) {
      QueuedJob& job = *std::ranges::find(queue_, blocked.number, &QueuedJob::number);
      if (job.promised_ms == 0) job.promised_ms = blocked.likely_ms;
      planner_.set_promised(job.number, job.promised_ms);
    }
    for (const auto& [number, placement] : made.start) begin(number, placement);
    preempted_ += made.preempt.size();
    for (const Preemption& one : made.preempt) {
      RunningJob& job = *std::ranges::find(running_, one.victim, &RunningJob::number);
      job.leaving = true;
      planner_.put_running(job);
    }
  }

  void check_forecast(const ClusterView& view) {
    std::vector<QueuedJob> by_number = queue_;
    std::ranges::sort(by_number, {}, &QueuedJob::number);
    const Forecast expected = forecast(view, by_number, now_, planner_.options());
    ASSERT_EQ(lines_of(planner_.forecast(now_)), lines_of(expected));
    if (queue_.empty()) return;
    const QueuedJob& job = queue_[static_cast<size_t>(below(static_cast<unsigned>(queue_.size())))];
    const auto one = forecast_one(view, queue_, job.number, now_, planner_.options());
    ASSERT_EQ(lines_of(Forecast{{*planner_.forecast_one(job.number, now_)}}), lines_of(Forecast{{*one}}));
    QueuedJob added = job;
    added.number = number_ + 1;
    std::vector<QueuedJob> with_new = queue_;
    with_new.push_back(added);
    const auto of_new = forecast_one(view, with_new, added.number, now_, planner_.options());
    ASSERT_EQ(lines_of(Forecast{{planner_.forecast_of_new(added, now_)}}), lines_of(Forecast{{*of_new}}));
  }

  void begin(JobNumber number, const Placement& placement) {
    const auto job = std::ranges::find(queue_, number, &QueuedJob::number);
    RunningJob run{.number = number,
                   .started_ms = now_,
                   .limit_ms = job->limit_ms,
                   .predicted_ms = job->predicted_ms,
                   .project = job->project,
                   .held = {},
                   .priority = job->priority};
    for (const std::string& node : placement.nodes) run.held.emplace_back(node, job->per_node);
    give(run, false);
    running_.push_back(run);
    planner_.put_running(run);
    planner_.erase(number);
    queue_.erase(job);
    ++started_;
  }

  std::mt19937 random_;
  IncrementalPlanner planner_;
  std::vector<PlanNode> nodes_;
  std::vector<QueuedJob> queue_;
  std::vector<RunningJob> running_;
  RunTimePredictor predictor_;
  JobNumber number_ = 0;
  int64_t now_ = 1'000'000;
  size_t started_ = 0;
  size_t preempted_ = 0;
};

TEST(IncrementalPlanner, RandomHistoriesGiveTheResultsOfThePlainFunctions) {
  size_t started = 0, preempted = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomHistory history(seed);
    for (int step = 0; step < 60; ++step) {
      history.step();
      ASSERT_FALSE(testing::Test::HasFailure()) << "step " << step;
    }
    started += history.started();
    preempted += history.preempted();
  }
  EXPECT_GT(started, 500u);
  EXPECT_GT(preempted, 20u);
}

TEST(IncrementalPlanner, UnusedShapesDoNotPileUp) {
  IncrementalPlanner planner;
  const ResourceSet total = *ResourceSet::from({.cpus = 64, .gpus = 8});
  planner.set_nodes(std::vector<PlanNode>{{.name = "a", .labels = {}, .total = total, .free = total}});
  for (JobNumber number = 1; number <= 2000; ++number) {
    QueuedJob job{.number = number, .node_names = {}, .labels = {}};
    job.per_node.set("memory", static_cast<Amount>(number));
    planner.put(job);
    if (number > 3) planner.erase(number - 3);
  }
  EXPECT_EQ(planner.size(), 3u);
  EXPECT_EQ(planner.plan(1).start.size(), 0u) << "the node has no memory";
  ASSERT_EQ(planner.queue().size(), 3u);
  EXPECT_EQ(planner.queue().front().number, 1998u);
  EXPECT_EQ(planner.find(1997), nullptr);
  EXPECT_FALSE(planner.forecast_one(1997, 1));
}

}  // namespace
}  // namespace volador::jobs
