// Job queue: which queued jobs may start now, and why the others wait.
// Pure: no clock, thread, I/O or randomness.
//
// Order: priority; then the project with the smaller share of the cluster (dominant resource of its running jobs,
// divided by its weight; jobs that start in the pass count); then submission; then number.
//
// Pools: each node belongs to one pool, and a job runs only on nodes of its pool. Pools share the order and the shares;
// each has its own blocked job, which delays only jobs of its pool.
//
// EASY backfill (Lifka 1995) with predictions (Tsafrir, Etsion, Feitelson 2007): the first job of a pool that does not
// fit is its blocked job. It gets two reservations, and a job behind it starts only if it fits now and delays neither:
//  - By predictions: the earliest time, and nodes, at which it fits if the running jobs end as predicted. A job that is
//    predicted to end before this time does not delay it.
//  - By limits: the same if they end at their limits. A job whose limit ends before this time does not delay it. As
//    long as the order stays, the blocked job starts at this time at the latest.
// A job that ends later may run on other nodes, or where enough is left at the reserved time.
//
// Starvation guard: after the promised time has passed, predictions no longer suffice; a job must then end by its limit
// before the first time. If no time is known by limits, the second reservation has no time: it holds the nodes that
// lack the least, and the blocked job keeps all that it asks for there. The same holds from the start if no time is
// known by predictions either.
//
// Limits of projects: a job that would take its project over its limit waits without blocking others. The blocked job
// keeps its part of the limit against jobs of its project and pool that would still run at the reserved time. Jobs of
// other pools do not respect that part, and a job ahead that waited for a limit or a quota may still come first.
//
// Elastic jobs start on as many nodes as fit now, from min_nodes to `nodes`, within the limit of their project.
// A job that shares nodes runs on a node as many times as it fits there; `nodes` is then the number of its ranks.
// Reservations, preemption, forecasts of waiting jobs and feasibility are those of min_nodes.
//
// Preemption: a blocked job of high priority may end running jobs of strictly lower priority: the lowest priority
// first, then the newest start. It ends all that it needs and none that it does not need, or none at all. Jobs that
// were asked to end already count as freed. Until they have ended, nothing else starts in the room reserved for it.
//
// Resources are amounts. Two halves of different GPUs count as one GPU; the owner of the devices must refuse that.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/resources.h"
#include "runtime/result.h"

namespace volador::jobs {

using JobNumber = uint64_t;

struct PlanNode {
  std::string name;
  std::map<std::string, std::string> labels;
  ResourceSet total;
  ResourceSet free;
  bool takes_jobs = true;  // False: draining or suspect; nothing starts there.
  std::string pool = "default";
};

enum class JobPriority : int { kNormal = 0, kUrgent = 1, kVeryUrgent = 2 };

// "normal", "urgent", "very_urgent".
std::string_view to_string(JobPriority priority);
// The inverse of to_string. kInvalidArgument: unknown word.
Result<JobPriority> parse_job_priority(std::string_view text);

// All times are in milliseconds. A job needs `nodes` different nodes that each have `per_node` free: all or nothing. An
// elastic job needs at least `min_nodes` of them. With shares_nodes they need not be different: `per_node` is the need of
// a rank, and a node counts once for each rank for which it has room.
struct QueuedJob {
  JobNumber number = 0;
  JobPriority priority = JobPriority::kNormal;
  std::string project;
  std::string owner;
  int nodes = 1;  // At least 1.
  ResourceSet per_node;
  int64_t submitted_ms = 0;
  int64_t limit_ms = 0;                       // Maximum run time; 0: unlimited.
  int64_t predicted_ms = 0;                   // Expected run time; 0: no prediction.
  std::vector<std::string> node_names;        // Only these nodes; empty: any.
  std::map<std::string, std::string> labels;  // Only nodes with all of these labels.
  // The first BlockedJob::likely_ms that a plan gave for this job; 0: none yet. See PlannerOptions::guard_ms.
  int64_t promised_ms = 0;
  std::string pool = "default";     // Only nodes of this pool.
  int min_nodes = 0;                // 0: `nodes`; else 1 to `nodes`.
  std::vector<std::string> avoids;  // None of these nodes.
  bool shares_nodes = false;

  int least_nodes() const { return min_nodes > 0 ? min_nodes : nodes; }
};

struct RunningJob {
  JobNumber number = 0;
  int64_t started_ms = 0;
  int64_t limit_ms = 0;      // 0: unlimited.
  int64_t predicted_ms = 0;  // Raised by half while the job overruns it; 0: no prediction.
  std::string project;
  std::vector<std::pair<std::string, ResourceSet>> held;  // By node.
  JobPriority priority = JobPriority::kNormal;
  bool leaving = false;  // It was asked to end, and ends soon.
  int64_t ends_ms = 0;   // Known end, instead of the limit and the prediction; 0: unknown.
};

struct ClusterView {
  std::vector<PlanNode> nodes;
  std::vector<RunningJob> running;
};

struct PlannerOptions {
  std::map<std::string, double> weights;    // Weights of projects in the fair share, above 0; default 1.
  std::map<std::string, int> urgent_quota;  // Urgent jobs of a project that may run at once; default: no limit.
  // The starvation guard begins at QueuedJob::promised_ms, or this long after submission if that is 0.
  int64_t guard_ms = 600'000;
  bool backfill = true;  // False: no job starts behind the blocked job.
  // What the running jobs of a project may hold together; resources that are not listed are not limited.
  std::map<std::string, ResourceSet> limits;
  std::optional<JobPriority> preempt_from;  // A blocked job of at least this priority preempts; none: no preemption.
};

// Nodes by rank; one that several ranks share is there several times.
struct Placement {
  std::vector<std::string> nodes;
};

enum class WaitKind : uint8_t {
  kBehind,        // Does not fit now, and the blocked job comes first.
  kNoRoom,        // The blocked job: does not fit now.
  kNever,         // The cluster can never hold it, or it needs more than the limit of its project.
  kReserved,      // Fits now, but would delay the blocked job.
  kUrgentQuota,   // The project already runs as many urgent jobs as it may.
  kProjectLimit,  // The project would hold more than its limit.
};

// What a job lacks; shared by all jobs that ask for the same.
struct Shortage {
  std::string resource;       // Resource of which no node has enough free; empty: no single resource is short.
  Amount needed = 0;          // Amount of `resource` on each node.
  Amount largest_free = 0;    // Amount of `resource` on a node where the job may run.
  bool shares_nodes = false;  // The following count ranks instead of nodes.
  int nodes_needed = 1;
  int nodes_most = 1;         // Above nodes_needed for an elastic job.
  int64_t nodes_fitting = 0;  // Nodes that have room now.
  int64_t nodes_able = 0;     // Nodes that could hold it when empty.
  int64_t nodes_closed = 0;   // The part of nodes_able that takes no jobs now.
  std::string why_never;      // For kNever.
};

struct Wait {
  JobNumber number = 0;
  WaitKind kind = WaitKind::kBehind;
  JobNumber other = 0;                                 // kBehind, kReserved: the blocked job.
  int64_t ahead = 0;                                   // Waiting jobs of the pool that come first.
  std::shared_ptr<const Shortage> shortage = nullptr;  // kNoRoom, kNever; kBehind: what it would lack anyway.
  // kProjectLimit: the first resource of which the project would hold too much.
  std::string project;
  std::string resource;
  Amount limit = 0;
  Amount held = 0;    // By running jobs of the project.
  Amount needed = 0;  // By this job, on all of its nodes.

  // Returns a plain English sentence: "needs 8 GPUs on each node, and no node has more than 2 free".
  std::string text() const;
};

// The first job of a pool that does not fit, and what is reserved for it.
struct BlockedJob {
  JobNumber number = 0;
  std::string pool;
  int64_t likely_ms = 0;                  // Expected start by predictions or preemption; 0: unknown.
  int64_t latest_ms = 0;                  // Start by limits; 0: unknown.
  bool guarded = false;                   // The starvation guard is active.
  std::vector<std::string> nodes;         // Reserved by predictions or preemption.
  std::vector<std::string> latest_nodes;  // Reserved by limits or without a known time.
};

// `victim` must end so that `by` can start in a later pass.
struct Preemption {
  JobNumber victim = 0;
  JobNumber by = 0;
  bool operator==(const Preemption&) const = default;
};

struct Plan {
  std::vector<std::pair<JobNumber, Placement>> start;  // In the order of the starts.
  std::vector<Wait> waits;                             // All other jobs of the queue, in order.
  std::vector<BlockedJob> blocked;                     // At most one in each pool, in the order of the queue.
  std::vector<Preemption> preempt;

  // Null if the job does not wait. O(waits).
  const Wait* wait_of(JobNumber number) const;
};

// Nodes are chosen by best fit: the node with room that has the fewest free GPUs, then CPUs, then memory, then other
// resources by name; equal nodes in the order of the view. A job that shares nodes gets the first of them that has room for
// all of its ranks, else one node after the other with room for the most of the rest. Numbers and node names must be unique.
// O(queue + nodes × shapes), where a shape is a distinct request of nodes and resources.
Plan plan(const ClusterView& cluster, std::span<const QueuedJob> queue, int64_t now_ms, const PlannerOptions& options);

// For refusal at submission. kInfeasible: the job needs more than the limit of its project in `options`, or the
// cluster can never hold it, even if all else ended; the message says why. kInvalidArgument: nodes < 1. kUnavailable:
// the cluster has no node yet; the job may be queued.
Result<void> check_feasible(const ClusterView& cluster, const QueuedJob& job, const PlannerOptions& options = {});

// For refusal at submission of an urgent job. kUnavailable: the project already has as many running and queued urgent
// jobs as its quota allows; the message has the count.
Result<void> check_urgent_quota(const ClusterView& cluster, std::span<const QueuedJob> queue,
                                const std::string& project, const PlannerOptions& options);

struct PlannerState;  // See planner_state.h.

// A queue and a cluster on which passes run at increasing times. plan() runs one pass; the forecast runs it forward.
class QueueRun {
 public:
  enum class Ends : uint8_t { kPredicted, kAtLimits };  // kAtLimits: ignores predictions.
  static constexpr int64_t kUnknown = INT64_MAX;

  struct Start {
    size_t job;                   // Index into the queue.
    std::vector<uint32_t> nodes;  // Indices into ClusterView::nodes.
  };

  // `cluster`, `queue` and `options` must outlive this object.
  QueueRun(const ClusterView& cluster, std::span<const QueuedJob> queue, int64_t now_ms, const PlannerOptions& options,
           Ends ends);
  ~QueueRun();
  QueueRun(const QueueRun&) = delete;
  QueueRun& operator=(const QueueRun&) = delete;

  // Starts what may start at this time. Preempted jobs end 1 ms later and do not come back. The result is valid until
  // the next call. find_blocked = false: looks for the blocked jobs only if some job may start behind them; this
  // changes no start.
  const std::vector<Start>& pass(int64_t now_ms, bool find_blocked = true);
  // Time of the next end of a running job; kUnknown if there is none.
  int64_t next_end_ms() const;
  // Ends all running jobs that end until this time.
  void end_until(int64_t now_ms);
  size_t waiting() const;  // Number of jobs that were not started.
  // The cluster cannot hold it even when empty, or it needs more than the limit of its project. If the cluster has no
  // node, only the limit counts.
  bool never(size_t job) const;
  // Appends the indices of the waiting jobs in order; in its pool, the blocked job of the last pass is the first that
  // the cluster can hold.
  void append_order(std::vector<uint32_t>& jobs) const;

  // Result of the last pass.
  std::vector<BlockedJob> blocked() const;
  const std::vector<Preemption>& preempted() const;
  std::vector<Wait> waits();

 private:
  friend class IncrementalPlanner;
  explicit QueueRun(std::unique_ptr<PlannerState> state);

  std::unique_ptr<PlannerState> state_;
};

}  // namespace volador::jobs
