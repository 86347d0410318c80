#include "jobs/queue/start_forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace volador::jobs {
namespace {

// Runs the queue forward and returns the start time of each job, 0 if it never starts. `until`: stops when this job has
// started. `find_blocked`: needed by the starvation guard, which looks at the first time at which a job was blocked.
// `first_pass`: called after the pass at now_ms.
template <class FirstPass>
std::vector<int64_t> run_queue_forward(QueueRun& run, size_t jobs, int64_t now_ms, std::optional<size_t> until,
                                       bool find_blocked, const FirstPass& first_pass) {
  std::vector<int64_t> started(jobs, 0);
  bool first = true;
  for (int64_t now = now_ms;;) {
    bool found = false;
    for (const QueueRun::Start& start : run.pass(now, find_blocked)) {
      started[start.job] = now;
      found = found || start.job == until;
    }
    if (first) first_pass();
    first = false;
    if (found || run.waiting() == 0) break;
    now = run.next_end_ms();
    if (now == QueueRun::kUnknown) break;
    run.end_until(now);
  }
  return started;
}

Forecast forecast_both(const ClusterView& cluster, std::span<const QueuedJob> queue, int64_t now_ms,
                       const PlannerOptions& options, std::optional<size_t> until) {
  std::vector<JobNumber> numbers;
  for (const QueuedJob& job : queue) numbers.push_back(job.number);
  QueueRun likely(cluster, queue, now_ms, options, QueueRun::Ends::kPredicted);
  QueueRun latest(cluster, queue, now_ms, options, QueueRun::Ends::kAtLimits);
  return run_forecast(likely, latest, numbers, now_ms, until);
}

}  // namespace

Forecast run_forecast(QueueRun& likely, QueueRun& latest, std::span<const JobNumber> numbers, int64_t now_ms,
                      std::optional<size_t> until) {
  Forecast result;
  result.jobs.resize(numbers.size());
  for (size_t at = 0; at < numbers.size(); ++at) result.jobs[at].number = numbers[at];
  const auto likely_starts = run_queue_forward(likely, numbers.size(), now_ms, until, true, [&] {
    std::vector<uint32_t> order;
    likely.append_order(order);
    int64_t ahead = 0;
    for (const uint32_t at : order) {
      result.jobs[at].never = likely.never(at);
      result.jobs[at].ahead = ahead;
      if (!result.jobs[at].never) ++ahead;
    }
  });
  const auto latest_starts = run_queue_forward(latest, numbers.size(), now_ms, until, false, [] {});
  for (size_t at = 0; at < numbers.size(); ++at) {
    result.jobs[at].likely_ms = likely_starts[at];
    result.jobs[at].latest_ms = latest_starts[at] > 0 ? std::max(latest_starts[at], likely_starts[at]) : 0;
  }
  return result;
}

Forecast forecast(const ClusterView& cluster, std::span<const QueuedJob> queue, int64_t now_ms,
                  const PlannerOptions& options) {
  return forecast_both(cluster, queue, now_ms, options, std::nullopt);
}

Result<StartForecast> forecast_one(const ClusterView& cluster, std::span<const QueuedJob> queue, JobNumber number,
                                   int64_t now_ms, const PlannerOptions& options) {
  const auto found = std::ranges::find(queue, number, &QueuedJob::number);
  if (found == queue.end()) {
    return make_error(ErrorCode::kNotFound, fmt::format("job {}: the queue has no such job", number));
  }
  const auto at = static_cast<size_t>(found - queue.begin());
  return forecast_both(cluster, queue, now_ms, options, at).jobs[at];
}

}  // namespace volador::jobs
