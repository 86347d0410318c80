// Expected start times of queued jobs: the planner run forward on a copy of the cluster.
// Pure: no clock, thread, I/O or randomness.
//
// Two runs. "Likely": running and started jobs end as predicted, or at their limits without a prediction; jobs that
// leave end as soon as possible. It includes preemptions, but not that preempted jobs come back. "At the latest": jobs
// end at their limits, without preemptions. Jobs submitted later, failed nodes, changed priorities and limits are not
// foreseen. The blocked job never starts after its time at the latest. For jobs behind it that time is not a guarantee:
// when jobs end early, others start elsewhere than foreseen, which can delay a third one (of the jobs that waited, 4 %
// in random queues, 0.1 to 0.5 % on a trace with `tests/bench/job_eta.cc`).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "jobs/queue/job_planner.h"
#include "runtime/result.h"

namespace volador::jobs {

struct StartForecast {
  JobNumber number = 0;
  int64_t likely_ms = 0;  // 0: unknown, because it waits for a job with neither a prediction nor a limit.
  int64_t latest_ms = 0;  // At least likely_ms. 0: unknown, because it waits for a job without a limit.
  int64_t ahead = 0;      // Waiting jobs, also of other pools, that come first now; 0 also for a job that starts now.
  bool never = false;     // The cluster or the limit of its project cannot hold it; both times are 0.
};

struct Forecast {
  std::vector<StartForecast> jobs;  // In the order of the queue.
};

Forecast forecast(const ClusterView& cluster, std::span<const QueuedJob> queue, int64_t now_ms,
                  const PlannerOptions& options);

// The same for one job of the queue; ends as soon as that job has started. For a job to be created: append it to a copy
// of the queue; for one with several specs: the earliest of their forecasts. kNotFound: the queue has no such job.
Result<StartForecast> forecast_one(const ClusterView& cluster, std::span<const QueuedJob> queue, JobNumber number,
                                   int64_t now_ms, const PlannerOptions& options);

// The same for two runs at now_ms of the same queue, Ends::kPredicted and Ends::kAtLimits. `numbers`: of the jobs, by
// their index. `until`: index of a job; ends as soon as it has started. The runs cannot be used for anything else then.
Forecast run_forecast(QueueRun& likely, QueueRun& latest, std::span<const JobNumber> numbers, int64_t now_ms,
                      std::optional<size_t> until);

}  // namespace volador::jobs
