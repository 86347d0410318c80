// The job planner for a queue that lives on between events: keeps the queue in order and the running jobs by their
// ends, so that a pass costs little more than the jobs that it starts. Its results are those of plan() and forecast().
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "jobs/queue/job_planner.h"
#include "jobs/queue/run_time_predictor.h"
#include "jobs/queue/start_forecast.h"
#include "runtime/result.h"

namespace volador::jobs {

class IncrementalPlanner {
 public:
  explicit IncrementalPlanner(PlannerOptions options = {});
  ~IncrementalPlanner();
  IncrementalPlanner(const IncrementalPlanner&) = delete;
  IncrementalPlanner& operator=(const IncrementalPlanner&) = delete;

  // O(queue + running + nodes).
  void set_options(PlannerOptions options);
  const PlannerOptions& options() const { return options_; }

  // The nodes with what is free now; running jobs do not change that. O(nodes) if only free amounts changed, else as
  // set_options().
  void set_nodes(std::span<const PlanNode> nodes);
  const std::vector<PlanNode>& nodes() const { return nodes_; }

  // Adds the job to the queue, or replaces it.
  void put(QueuedJob job);
  // Removes the job from the queue; false: it is not there.
  bool erase(JobNumber number);
  // Null: not in the queue. Valid until the queue changes.
  const QueuedJob* find(JobNumber number) const;
  size_t size() const { return queue_.size(); }
  // A copy, by number.
  std::vector<QueuedJob> queue() const;
  // Sets QueuedJob::promised_ms; does nothing if the job is not in the queue.
  void set_promised(JobNumber number, int64_t promised_ms);
  // Renews the predictions of the queued jobs of this owner and of this project. For a run that was just recorded.
  void repredict(const RunTimePredictor& predictor, std::string_view owner, std::string_view project);

  // The same for running jobs.
  void put_running(RunningJob job);
  bool erase_running(JobNumber number);
  const RunningJob* find_running(JobNumber number) const;
  size_t running() const { return running_.size(); }
  // A copy, by number, for the functions of job_planner.h.
  ClusterView view() const;

  // The same as plan(), without Plan::waits. Changes nothing: the caller applies the plan by erase(), put_running() and
  // set_nodes(). O(nodes × shapes), plus the queue if it starts jobs.
  Plan plan(int64_t now_ms) const;
  // Plan::waits of that plan. O(queue).
  std::vector<Wait> waits(int64_t now_ms) const;
  // The same as forecast(); the jobs by number.
  Forecast forecast(int64_t now_ms) const;
  // kNotFound: the queue has no such job.
  Result<StartForecast> forecast_one(JobNumber number, int64_t now_ms) const;
  // For a job that is not in the queue: its forecast if it were.
  StartForecast forecast_of_new(const QueuedJob& job, int64_t now_ms) const;

 private:
  struct Queued {
    QueuedJob job;
    uint32_t slot = 0;  // Index into PlannerState::jobs.
  };
  struct Runs {
    RunningJob job;
    uint32_t slot = 0;  // Index into PlannerState::running.
  };
  using Numbers = std::unordered_map<std::string, std::unordered_set<JobNumber>>;

  void rebuild();
  void rebuild_if_wasteful();
  void set_free(std::span<const PlanNode> nodes, const std::vector<uint32_t>& changed);
  StartForecast forecast_until(std::unique_ptr<PlannerState> state, uint32_t slot, int64_t now_ms) const;

  PlannerOptions options_;
  std::vector<PlanNode> nodes_;
  std::unordered_map<JobNumber, Queued> queue_;
  std::unordered_map<JobNumber, Runs> running_;
  Numbers by_owner_;
  Numbers by_project_;
  std::unique_ptr<PlannerState> state_;  // A pass changes it and restores it.
};

}  // namespace volador::jobs
