#include "jobs/queue/start_forecast.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "jobs/queue/job_planner.h"
#include "jobs/queue/run_time_predictor.h"
#include "runtime/resources.h"
#include "runtime/result.h"

namespace volador::jobs {
namespace {

constexpr int64_t kForecastNow = 1'000'000;

ResourceSet forecast_amounts(double gpus, double cpus = 1) { return *ResourceSet::from({.cpus = cpus, .gpus = gpus}); }

PlanNode forecast_node(const std::string& name, double gpus, double cpus = 64) {
  return {.name = name, .labels = {}, .total = forecast_amounts(gpus, cpus), .free = forecast_amounts(gpus, cpus)};
}

QueuedJob forecast_job(JobNumber number, double gpus, int64_t limit_ms, int64_t predicted_ms, int nodes = 1) {
  return {.number = number,
          .project = "vision",
          .owner = "ann",
          .nodes = nodes,
          .per_node = forecast_amounts(gpus),
          .submitted_ms = static_cast<int64_t>(number),
          .limit_ms = limit_ms,
          .predicted_ms = predicted_ms,
          .node_names = {},
          .labels = {}};
}

// Cluster on which planned jobs run for given times. Checks each plan against simple computations.
class SimulatedQueue {
 public:
  ClusterView view;
  std::vector<QueuedJob> queue;
  std::map<JobNumber, int64_t> run_ms;  // True run times.
  PlannerOptions options;
  int64_t now = kForecastNow;
  std::map<JobNumber, int64_t> started;
  std::map<JobNumber, int64_t> promised_latest;  // Smallest BlockedJob::latest_ms that was given.
  int elastic = 0;                               // Elastic jobs that started.
  bool one_order = true;                         // One project: the order is priority, submission, number.

  // Plans, checks the plan and applies it.
  void plan_and_start() {
    const Plan planned = plan(view, queue, now, options);
    EXPECT_EQ(planned.start.size() + planned.waits.size(), queue.size());
    std::map<JobNumber, QueuedJob> by_number;
    for (const QueuedJob& job : queue) by_number[job.number] = job;
    const BlockedJob* blocked = planned.blocked.empty() ? nullptr : &planned.blocked.front();
    const std::optional<QueuedJob> head =
        blocked == nullptr ? std::nullopt : std::optional(by_number.at(blocked->number));
    bool head_reached = false;
    for (const auto& [number, placement] : planned.start) {
      const QueuedJob& job = by_number.at(number);
      if (head && one_order && !head_reached && !before(job, *head)) {
        check_promise(*blocked, *head, "before backfill", true);
        head_reached = true;
      }
      if (!head) check_largest(job, placement);
      start(job, placement);
    }
    if (head && one_order) check_promise(*blocked, *head, "after backfill", !head_reached);
    for (QueuedJob& job : queue) {
      if (blocked == nullptr || job.number != blocked->number) continue;
      if (job.promised_ms == 0) job.promised_ms = blocked->likely_ms;
      if (blocked->latest_ms == 0) continue;
      const auto known = promised_latest.try_emplace(job.number, blocked->latest_ms).first;
      known->second = std::min(known->second, blocked->latest_ms);
    }
    check_no_needless_wait(planned);
  }

  // Moves to the next end of a job; false: none runs.
  bool advance() {
    int64_t next = INT64_MAX;
    for (const RunningJob& job : view.running) next = std::min(next, job.started_ms + run_ms.at(job.number));
    if (next == INT64_MAX) return false;
    move_to(next);
    return true;
  }

  void move_to(int64_t time) {
    now = time;
    std::erase_if(view.running, [&](const RunningJob& job) {
      if (job.started_ms + run_ms.at(job.number) > now) return false;
      for (const auto& [name, held] : job.held) node(name).free += held;
      return true;
    });
  }

  void run_to_end() {
    do {
      plan_and_start();
    } while (!queue.empty() && advance());
  }

  void start(const QueuedJob& job, const Placement& placement) {
    ASSERT_LE(placement.nodes.size(), static_cast<size_t>(job.nodes)) << "job " << job.number;
    ASSERT_GE(placement.nodes.size(), static_cast<size_t>(job.least_nodes())) << "job " << job.number;
    if (job.least_nodes() < job.nodes) ++elastic;
    EXPECT_EQ(std::set(placement.nodes.begin(), placement.nodes.end()).size(), placement.nodes.size());
    RunningJob running{.number = job.number,
                       .started_ms = now,
                       .limit_ms = job.limit_ms,
                       .predicted_ms = job.predicted_ms,
                       .project = job.project,
                       .held = {},
                       .priority = job.priority};
    for (const std::string& name : placement.nodes) {
      PlanNode& place = node(name);
      EXPECT_TRUE(place.takes_jobs) << name;
      EXPECT_TRUE(allowed(place, job)) << "job " << job.number << " on " << name;
      ASSERT_TRUE(job.per_node.fits_in(place.free)) << "job " << job.number << " overcommits " << name;
      place.free -= job.per_node;
      running.held.emplace_back(name, job.per_node);
    }
    view.running.push_back(running);
    started[job.number] = now;
    std::erase_if(queue, [&](const QueuedJob& waiting) { return waiting.number == job.number; });
  }

 private:
  PlanNode& node(const std::string& name) { return *std::ranges::find(view.nodes, name, &PlanNode::name); }

  static bool allowed(const PlanNode& place, const QueuedJob& job) {
    const bool named = job.node_names.empty() || std::ranges::count(job.node_names, place.name) > 0;
    return named && std::ranges::all_of(job.labels, [&](const auto& label) {
             return place.labels.contains(label.first) && place.labels.at(label.first) == label.second;
           });
  }

  static bool before(const QueuedJob& a, const QueuedJob& b) {
    const auto key = [](const QueuedJob& job) {
      return std::tuple(-static_cast<int>(job.priority), job.submitted_ms, job.number);
    };
    return key(a) < key(b);
  }

  int64_t end_of(const RunningJob& job, bool by_limit) const {
    const int64_t limit_end = job.limit_ms > 0 ? job.started_ms + job.limit_ms : INT64_MAX;
    if (by_limit || job.predicted_ms == 0) return limit_end;
    const int64_t predicted = raised_prediction(job.predicted_ms, now - job.started_ms, job.limit_ms);
    return std::min(limit_end, job.started_ms + predicted);
  }

  // The earliest time after now at which the job fits; 0 if there is none.
  int64_t earliest(const QueuedJob& job, bool by_limit) const {
    std::set<int64_t> times;
    for (const RunningJob& running : view.running) times.insert(std::max(now + 1, end_of(running, by_limit)));
    times.erase(INT64_MAX);
    for (const int64_t time : times) {
      int fitting = 0;
      for (const PlanNode& place : view.nodes) {
        if (!place.takes_jobs || !allowed(place, job)) continue;
        ResourceSet free = place.free;
        for (const RunningJob& running : view.running) {
          if (std::max(now + 1, end_of(running, by_limit)) > time) continue;
          for (const auto& [name, held] : running.held) {
            if (name == place.name) free += held;
          }
        }
        if (job.per_node.fits_in(free)) ++fitting;
      }
      if (fitting >= job.least_nodes()) return time;
    }
    return 0;
  }

  void check_promise(const BlockedJob& blocked, const QueuedJob& head, const char* when, bool exact) {
    const int64_t likely = earliest(head, false);
    const int64_t latest = earliest(head, true);
    if (exact) {
      EXPECT_EQ(likely, blocked.likely_ms) << "job " << head.number << " " << when;
      EXPECT_EQ(latest, blocked.latest_ms) << "job " << head.number << " " << when;
      return;
    }
    if (blocked.likely_ms > 0) {
      EXPECT_GT(likely, 0) << "job " << head.number << " " << when;
      EXPECT_LE(likely, blocked.likely_ms) << "job " << head.number << " " << when;
    }
    if (blocked.latest_ms > 0) {
      EXPECT_GT(latest, 0) << "job " << head.number << " " << when;
      EXPECT_LE(latest, blocked.latest_ms) << "job " << head.number << " " << when;
    }
  }

  // Without reservations a job takes all of the nodes that fit.
  void check_largest(const QueuedJob& job, const Placement& placement) const {
    const auto fitting = std::ranges::count_if(view.nodes, [&](const PlanNode& place) {
      return place.takes_jobs && allowed(place, job) && job.per_node.fits_in(place.free);
    });
    EXPECT_EQ(static_cast<int64_t>(placement.nodes.size()), std::min<int64_t>(fitting, job.nodes));
  }

  // A job that fits waits only for nodes that are reserved for the blocked job, or for its quota.
  void check_no_needless_wait(const Plan& planned) {
    std::set<std::string> reserved;
    for (const BlockedJob& blocked : planned.blocked) {
      reserved.insert(blocked.nodes.begin(), blocked.nodes.end());
      reserved.insert(blocked.latest_nodes.begin(), blocked.latest_nodes.end());
    }
    for (const QueuedJob& job : queue) {
      int outside = 0, fitting = 0;
      for (const PlanNode& place : view.nodes) {
        if (!place.takes_jobs || !allowed(place, job) || !job.per_node.fits_in(place.free)) continue;
        ++fitting;
        if (!reserved.contains(place.name)) ++outside;
      }
      const Wait* wait = planned.wait_of(job.number);
      ASSERT_NE(wait, nullptr) << "job " << job.number;
      EXPECT_LT(outside, job.least_nodes()) << "job " << job.number << ": " << wait->text();
      EXPECT_EQ(fitting >= job.least_nodes(), wait->kind == WaitKind::kReserved) << "job " << job.number;
    }
  }
};

struct RandomQueueOptions {
  double without_limit = 0;
  double without_prediction = 0.1;
  int projects = 1;
  bool labels = true;
  bool exact_predictions = false;
  bool elastic = false;
};

SimulatedQueue random_queue(unsigned seed, const RandomQueueOptions& how) {
  std::mt19937 random(seed);
  const auto below = [&](unsigned limit) { return static_cast<int>(random() % limit); };
  const auto chance = [&](double share) { return static_cast<double>(random() % 1000) < share * 1000; };
  SimulatedQueue result;
  const int nodes = 1 + below(6);
  for (int i = 0; i < nodes; ++i) {
    PlanNode node =
        forecast_node(fmt::format("n{}", i), std::array{0, 4, 8, 8}[static_cast<size_t>(below(4))], 8 * (1 + below(4)));
    node.labels["zone"] = i % 2 == 0 ? "a" : "b";
    result.view.nodes.push_back(node);
  }
  const int jobs = 5 + below(30);
  for (int i = 1; i <= jobs; ++i) {
    const int64_t run = 1 + below(1000);
    const bool limited = !chance(how.without_limit);
    const int64_t limit = limited ? run + below(static_cast<unsigned>(2 * run)) : 0;
    int64_t predicted = chance(how.without_prediction) ? 0 : 1 + below(1500);
    if (how.exact_predictions) predicted = run;
    if (limit > 0) predicted = std::min(predicted, limit);
    QueuedJob job = forecast_job(static_cast<JobNumber>(i), std::array{0, 1, 2, 4, 8}[static_cast<size_t>(below(5))],
                                 limit, predicted, chance(0.7) ? 1 : 1 + below(3));
    job.per_node.set("cpus", (1 + below(10)) * kUnit);
    job.submitted_ms = below(50);
    job.project = fmt::format("p{}", below(static_cast<unsigned>(how.projects)));
    if (chance(0.1)) job.priority = JobPriority::kUrgent;
    if (how.labels && chance(0.1)) job.labels["zone"] = chance(0.5) ? "a" : "b";
    if (how.labels && chance(0.05)) job.node_names = {"n0", "n1"};
    if (how.elastic && chance(0.5)) job.nodes = (job.min_nodes = job.nodes) + below(3);
    if (!check_feasible(result.view, job)) continue;
    result.run_ms[job.number] = run;
    result.queue.push_back(job);
  }
  result.one_order = how.projects == 1;
  return result;
}

TEST(StartForecast, RandomQueuesKeepTheRulesAndEveryJobStarts) {
  int elastic = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimulatedQueue queue = random_queue(seed, {.without_limit = seed % 3 == 0 ? 0.3 : 0,
                                               .projects = seed % 4 == 0 ? 3 : 1,
                                               .exact_predictions = seed % 5 == 0,
                                               .elastic = seed % 2 == 0});
    queue.run_to_end();
    EXPECT_TRUE(queue.queue.empty());
    elastic += queue.elastic;
    if (!queue.one_order) continue;
    for (const auto& [number, latest] : queue.promised_latest) EXPECT_LE(queue.started.at(number), latest) << number;
    if (HasFailure()) break;
  }
  EXPECT_GT(elastic, 500);
}

const StartForecast& forecast_of(const Forecast& forecast, JobNumber number) {
  return *std::ranges::find(forecast.jobs, number, &StartForecast::number);
}

TEST(StartForecast, RandomQueuesStartAsForeseenIfPredictionsAreRight) {
  int waited = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimulatedQueue queue =
        random_queue(seed, {.projects = seed % 2 == 0 ? 3 : 1, .exact_predictions = true, .elastic = seed % 3 == 0});
    const Forecast foreseen = forecast(queue.view, queue.queue, queue.now, queue.options);
    queue.run_to_end();
    for (const auto& [number, start] : queue.started) {
      EXPECT_EQ(start, forecast_of(foreseen, number).likely_ms) << "job " << number;
      if (start > kForecastNow) ++waited;
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(waited, 500);
}

TEST(StartForecast, RandomQueuesStartAtTheLatestTimeIfAllJobsRunToTheirLimits) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimulatedQueue queue = random_queue(seed, {.without_prediction = 1, .elastic = seed % 3 == 0});
    for (const QueuedJob& job : queue.queue) queue.run_ms[job.number] = job.limit_ms;
    const Forecast foreseen = forecast(queue.view, queue.queue, queue.now, queue.options);
    queue.run_to_end();
    for (const auto& [number, start] : queue.started) {
      EXPECT_EQ(start, forecast_of(foreseen, number).latest_ms) << "job " << number;
    }
    if (HasFailure()) break;
  }
}

// EASY protects the blocked job only. Jobs that end early let others start elsewhere, which can delay a third one.
TEST(StartForecast, FewJobsAreLateAndTheBlockedOneNeverIs) {
  int waited = 0, late = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimulatedQueue queue = random_queue(seed, {});
    const Forecast foreseen = forecast(queue.view, queue.queue, queue.now, queue.options);
    const Plan first = plan(queue.view, queue.queue, queue.now, queue.options);
    queue.run_to_end();
    for (const auto& [number, start] : queue.started) {
      if (start > kForecastNow) ++waited;
      if (start > forecast_of(foreseen, number).latest_ms) ++late;
    }
    if (first.blocked.empty()) continue;
    const StartForecast& blocked = forecast_of(foreseen, first.blocked.front().number);
    EXPECT_EQ(blocked.ahead, 0);
    EXPECT_LE(queue.started.at(blocked.number), blocked.latest_ms) << "job " << blocked.number;
  }
  EXPECT_GT(waited, 1000);
  EXPECT_LT(late, waited * 6 / 100) << "of " << waited;
}

TEST(StartForecast, OneJobGetsTheSameForecast) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const SimulatedQueue queue = random_queue(seed, {.without_limit = 0.1, .projects = 2});
    const Forecast all = forecast(queue.view, queue.queue, queue.now, queue.options);
    for (const StartForecast& expected : all.jobs) {
      const auto one = forecast_one(queue.view, queue.queue, expected.number, queue.now, queue.options);
      ASSERT_TRUE(one);
      EXPECT_EQ(one->likely_ms, expected.likely_ms) << "job " << expected.number;
      EXPECT_EQ(one->latest_ms, expected.latest_ms) << "job " << expected.number;
      EXPECT_EQ(one->ahead, expected.ahead) << "job " << expected.number;
    }
  }
}

// Node a with 8 GPUs, held for 100 ms by a job with limit 400 ms.
SimulatedQueue held_node() {
  SimulatedQueue result;
  result.view.nodes.push_back(forecast_node("a", 8));
  const QueuedJob holder = forecast_job(100, 6, 400, 100);
  result.start(holder, {.nodes = {"a"}});
  return result;
}

TEST(StartForecast, GivesBothTimesAndThePlace) {
  SimulatedQueue queue = held_node();
  queue.queue = {forecast_job(1, 8, 50, 20), forecast_job(2, 8, 50, 20), forecast_job(3, 2, 90, 90)};
  const Forecast result = forecast(queue.view, queue.queue, queue.now, queue.options);
  EXPECT_EQ(result.jobs[0].likely_ms, kForecastNow + 100);
  EXPECT_EQ(result.jobs[0].latest_ms, kForecastNow + 400);
  EXPECT_EQ(result.jobs[0].ahead, 0);
  EXPECT_EQ(result.jobs[1].likely_ms, kForecastNow + 120);
  EXPECT_EQ(result.jobs[1].latest_ms, kForecastNow + 450);
  EXPECT_EQ(result.jobs[1].ahead, 1);
  EXPECT_EQ(result.jobs[2].likely_ms, kForecastNow) << "starts now";
  EXPECT_EQ(result.jobs[2].latest_ms, kForecastNow);
}

TEST(StartForecast, UnlimitedJobAheadMakesTheLatestTimeUnknown) {
  SimulatedQueue queue = held_node();
  queue.queue = {forecast_job(1, 8, 0, 20), forecast_job(2, 8, 50, 20), forecast_job(3, 8, 50, 0)};
  const Forecast result = forecast(queue.view, queue.queue, queue.now, queue.options);
  EXPECT_EQ(result.jobs[0].latest_ms, kForecastNow + 400);
  EXPECT_EQ(result.jobs[1].likely_ms, kForecastNow + 120);
  EXPECT_EQ(result.jobs[1].latest_ms, 0);
  queue.queue[0].predicted_ms = 0;
  const Forecast unknown = forecast(queue.view, queue.queue, queue.now, queue.options);
  EXPECT_EQ(unknown.jobs[0].likely_ms, kForecastNow + 100);
  EXPECT_EQ(unknown.jobs[1].likely_ms, 0);
}

TEST(StartForecast, InfeasibleJobNeverStartsAndDelaysNobody) {
  SimulatedQueue queue = held_node();
  queue.queue = {forecast_job(1, 9, 50, 20), forecast_job(2, 8, 50, 20)};
  const Forecast result = forecast(queue.view, queue.queue, queue.now, queue.options);
  EXPECT_TRUE(result.jobs[0].never);
  EXPECT_EQ(result.jobs[0].likely_ms, 0);
  EXPECT_FALSE(result.jobs[1].never);
  EXPECT_EQ(result.jobs[1].ahead, 0);
  EXPECT_EQ(result.jobs[1].likely_ms, kForecastNow + 100);
  const auto missing = forecast_one(queue.view, queue.queue, 7, queue.now, queue.options);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

// Two jobs at a time share the node, run for 200 ms instead of the predicted 10 ms, and have no limit. Whenever one
// ends, the next is predicted to end before the rest is free: only the guard lets the large job start.
TEST(StartForecast, WrongPredictionsDoNotStarveTheBlockedJob) {
  for (const bool guard : {true, false}) {
    SimulatedQueue queue;
    queue.view.nodes = {forecast_node("a", 8)};
    queue.options.guard_ms = 600;
    queue.run_ms[1] = 100;
    JobNumber next = 2;
    for (int step = 0; step < 200 && !queue.started.contains(1); ++step) {
      if (step == 3) {
        QueuedJob large = forecast_job(1, 8, 0, 100);
        large.priority = JobPriority::kUrgent;
        queue.queue.push_back(large);
      }
      if (step == 0 || step == 2 || step > 3) {
        queue.run_ms[next] = 200;
        queue.queue.push_back(forecast_job(next++, 4, 0, 10));
      }
      if (!guard) {
        for (QueuedJob& job : queue.queue) job.promised_ms = INT64_MAX / 2;  // Never passes.
      }
      queue.plan_and_start();
      std::erase_if(queue.queue, [&](const QueuedJob& job) { return job.number > 1; });
      queue.move_to(queue.now + 40);
    }
    EXPECT_EQ(queue.started.contains(1), guard);
  }
}

TEST(RunTimePredictor, TakesTheLastTwoRunsOfTheOwner) {
  RunTimePredictor predictor;
  EXPECT_EQ(predictor.predict("ann", "vision", 0), 0);
  predictor.record("ann", "vision", 1000, 0);
  EXPECT_EQ(predictor.predict("ann", "vision", 0), 1000);
  predictor.record("ann", "vision", 300, 0);
  predictor.record("ann", "vision", 500, 0);
  EXPECT_EQ(predictor.predict("ann", "vision", 0), 400);
  EXPECT_EQ(predictor.predict("ann", "vision", 350), 350) << "at most the limit";
}

TEST(RunTimePredictor, ScalesTheLimitByTheUsedFraction) {
  RunTimePredictor predictor;
  predictor.record("ann", "vision", 100, 1000);
  predictor.record("ann", "vision", 300, 1000);
  EXPECT_EQ(predictor.predict("ann", "vision", 5000), 1000);
  EXPECT_EQ(predictor.predict("ann", "vision", 0), 200) << "mean run time, as the new job has no limit";
  predictor.record("ann", "vision", 500, 0);
  EXPECT_EQ(predictor.predict("ann", "vision", 5000), 400) << "mean run time, as one of the runs had no limit";
}

TEST(RunTimePredictor, UsesTheProjectForANewOwner) {
  RunTimePredictor predictor;
  predictor.record("ann", "vision", 100, 0);
  predictor.record("bob", "vision", 300, 0);
  predictor.record("bob", "speech", 900, 0);
  EXPECT_EQ(predictor.predict("eve", "vision", 0), 200);
  EXPECT_EQ(predictor.predict("eve", "speech", 0), 900);
  EXPECT_EQ(predictor.predict("eve", "robots", 0), 0);
  predictor.record("eve", "robots", -5, 0);
  EXPECT_EQ(predictor.predict("eve", "robots", 0), 0) << "no negative run time";
  predictor.record("eve", "robots", 0, 0);
  EXPECT_EQ(predictor.predict("eve", "robots", 0), 1) << "0 would mean no prediction";
}

TEST(RunTimePredictor, RaisesAPredictionByHalfUntilItExceedsTheElapsedTime) {
  EXPECT_EQ(raised_prediction(0, 50, 0), 0);
  EXPECT_EQ(raised_prediction(100, 99, 0), 100);
  EXPECT_EQ(raised_prediction(100, 100, 0), 150);
  EXPECT_EQ(raised_prediction(100, 150, 0), 225);
  EXPECT_EQ(raised_prediction(100, 150, 200), 200);
  EXPECT_EQ(raised_prediction(1, 1, 0), 2);
}

}  // namespace
}  // namespace volador::jobs
