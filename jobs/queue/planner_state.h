// Data of the job planner: nodes, queue, running jobs and the current pass. For the files of this folder and for tests;
// the interface is job_planner.h.
// Pure: no clock, thread, I/O or randomness.
//
// Amounts of resources are rows of `width` columns, one for each resource: GPUs, CPUs, memory, then the others by name.
// Jobs, shapes, projects, pools and running jobs are indices into vectors; slots of jobs and running jobs are reused.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "jobs/queue/job_planner.h"
#include "runtime/resources.h"

namespace volador::jobs {

inline constexpr int64_t kJobNeverEnds = QueueRun::kUnknown;
inline constexpr size_t kJobPriorities = 3;
inline constexpr size_t kReservationsMax = 2;
inline constexpr uint32_t kAllFailed = (1u << (1u << kReservationsMax)) - 1;
inline constexpr size_t kGpuColumn = 0;
inline constexpr uint32_t kNoIndex = UINT32_MAX;
inline constexpr Amount kNoLimit = -1;

// Set of reservations of a pool: bit i is the reservation i.
using ReservationSet = uint32_t;

struct PlannerState {
  // Jobs that ask for the same nodes and resources.
  struct Shape {
    QueuedJob asked;      // Only what they ask for.
    uint32_t need = 0;    // Row.
    bool shares = false;  // A node counts once for each rank for which it has room.
    size_t least = 1;     // Nodes without which no job of it starts.
    size_t most = 1;      // Nodes that a job of it takes if they are free; above `least` for elastic jobs.
    uint32_t pool = 0;
    std::vector<uint8_t> allowed;  // By node; empty: all nodes of the pool.
    bool possible = false;         // Enough nodes that take jobs could hold it when empty.
    bool never = false;            // Not possible either if all nodes took jobs.
    size_t waiting = 0;
    bool fitted = true;  // False: too few nodes had room when last tried; since then only nodes in `released` gained.
    // For the current pass: bit r is set if no job of this shape fits that must respect the reservation set r.
    uint32_t failed = 0;
  };
  struct Job {
    JobNumber number = 0;
    int64_t submitted_ms = 0;
    int64_t promised_ms = 0;
    uint32_t shape = 0;
    uint32_t project = 0;
    JobPriority priority = JobPriority::kNormal;
    bool started = false;
  };
  struct Entry {
    uint32_t job;
    uint32_t shape;
    int64_t limit_ms;    // Run time by limit; kJobNeverEnds.
    int64_t planned_ms;  // Run time by prediction, else by limit; kJobNeverEnds.
  };
  // Waiting jobs of one priority and project, by submission and number.
  struct Bucket {
    std::vector<Entry> jobs;
    size_t cursor = 0;  // Next job of the current pass.
    bool changed = false;
  };
  struct Project {
    std::string name;
    double weight = 1;
    double share = 0;
    std::vector<Amount> used;
    std::vector<Amount> limit;  // kNoLimit: not limited.
    bool limited = false;
    int urgent_running = 0;
    int urgent_quota = std::numeric_limits<int>::max();
    std::array<Bucket, kJobPriorities> buckets;
  };
  struct Hold {
    uint32_t node;  // kNoIndex: not in the view.
    uint32_t row;
  };
  struct Running {
    JobNumber number = 0;
    JobPriority priority = JobPriority::kNormal;
    int64_t started_ms = 0;
    int64_t asked_limit_ms = 0;  // RunningJob::limit_ms, predicted_ms and ends_ms.
    int64_t asked_predicted_ms = 0;
    int64_t ends_ms = 0;
    bool leaving = false;
    bool present = false;                // False: an unused slot.
    bool owns_rows = false;              // Otherwise they belong to a shape.
    int64_t planned_ms = kJobNeverEnds;  // End by prediction, else by limit.
    int64_t limit_ms = kJobNeverEnds;    // End by limit.
    uint32_t project = 0;
    std::vector<Hold> held;
  };
  // The first holding of a running job, and how many it has; close together, because a reservation looks at many.
  struct FirstHold {
    uint32_t node = kNoIndex;
    uint32_t row = 0;
    uint32_t count = 0;
  };
  using End = std::pair<int64_t, uint32_t>;  // Time, index into `running`.
  struct Reservation {
    int64_t time = 0;                // -1: unknown or by preemption; no job ends before it.
    bool by_limits = false;          // A job must end by its limit before `time`; otherwise by its prediction.
    std::vector<uint32_t> nodes;     // Different ones.
    std::vector<Amount> left;        // By index into `nodes`: what others may hold at that time.
    uint32_t project = kNoIndex;     // Its limit is reserved, too; kNoIndex: it has none.
    std::vector<Amount> limit_left;  // What other jobs of this project may hold at that time; kNoLimit.
  };
  struct Pool {
    std::string name;
    std::vector<uint32_t> order;    // Nodes that take jobs: best fit first.
    std::vector<Amount> most_free;  // At the start of a pass, on a node that takes jobs.
    // State of the current or last pass.
    size_t alive = 0;  // Waiting shapes of which some job may still start.
    std::optional<uint32_t> blocked;
    bool guarded = false;
    std::array<Reservation, kReservationsMax> reservations;
    size_t reservation_count = 0;
    std::optional<size_t> likely;  // Index of the reservation by predictions or preemption.
    int64_t likely_ms = 0;
    std::optional<size_t> latest;  // Index of the one by limits or without a known time.
  };
  // Nodes for the blocked job at a time, different ones, and what it leaves on each of them.
  struct Fit {
    int64_t time = -1;
    std::vector<uint32_t> nodes;
    std::vector<Amount> left;
  };
  struct PreemptionFit {
    Fit fit;
    int64_t likely_ms = 0;
    std::vector<uint32_t> victims;  // Indices into `running`.
  };
  struct Turn {
    double share;
    int64_t submitted_ms;
    JobNumber number;
    uint32_t project;
    uint32_t job;
    bool operator>(const Turn& other) const {
      return std::tie(share, submitted_ms, number) > std::tie(other.share, other.submitted_ms, other.number);
    }
  };
  using Turns = std::priority_queue<Turn, std::vector<Turn>, std::greater<>>;
  // Nodes of a pool with equal totals.
  struct NodeClass {
    uint32_t node = 0;  // One of them.
    int64_t open = 0;   // How many of them take jobs.
    int64_t closed = 0;
  };

  // `nodes` and `options` must outlive this object and its copies.
  PlannerState(const std::vector<PlanNode>& nodes, const PlannerOptions& options, QueueRun::Ends ends);

  const std::vector<PlanNode>* nodes;
  const PlannerOptions* options;
  QueueRun::Ends ends;

  size_t width = 0;
  std::vector<std::string> resources;  // By column.
  std::vector<Amount> rows;            // Requests of shapes, holdings of running jobs.
  std::vector<uint32_t> unused_rows;
  std::vector<Amount> free;   // By node.
  std::vector<Amount> total;  // By node.
  std::vector<Amount> cluster_total;
  std::vector<uint32_t> pool_of_node;
  std::unordered_map<std::string_view, uint32_t> node_index;
  std::vector<Pool> pools;
  std::array<std::vector<int32_t>, kReservationsMax> place;  // By node: index into Reservation::nodes, or -1.
  std::vector<uint32_t> released;                            // Nodes on which jobs ended since the last pass.

  std::vector<Shape> shapes;
  std::unordered_multimap<uint64_t, uint32_t> shape_index;  // By hash.
  std::vector<Job> jobs;
  std::vector<uint32_t> unused_jobs;
  std::vector<Project> projects;
  std::unordered_map<std::string, uint32_t> project_index;
  std::vector<Running> running;
  std::vector<FirstHold> first_holds;  // By index into `running`.
  std::vector<uint32_t> unused_running;
  std::vector<End> by_plan;   // Running jobs that end, latest first.
  std::vector<End> by_limit;  // The same by limit.
  size_t waiting_jobs = 0;

  // State of the current or last pass.
  int64_t now = 0;
  std::vector<QueueRun::Start> starts;
  std::vector<uint32_t> started_running;  // Indices into `running`, by start.
  std::vector<uint32_t> blocked_pools;    // In the order of the queue.
  std::vector<uint8_t> closed;            // By shape: no job of it may start or block any more.
  std::vector<Preemption> preempted;
  std::vector<uint32_t> victims;                               // Indices into `running`.
  std::vector<std::pair<uint32_t, int64_t>> earlier_promises;  // Jobs whose promise the pass set, and the value before.
  std::vector<uint32_t> chosen;
  std::vector<Amount> later;         // Free amounts at a later time.
  std::vector<uint32_t> fits_later;  // By node: how many ranks, see ranks_in().

  // ---- Content (planner_state.cc).

  // `in_order` = false: sort_queue() follows.
  uint32_t add_job(const QueuedJob& job, bool in_order);
  void remove_job(uint32_t job);
  // Changes the prediction of a waiting job.
  void set_predicted(uint32_t job, int64_t predicted_ms);
  uint32_t add_running(const RunningJob& job, bool in_order);
  void remove_running(uint32_t index);
  void sort_queue();
  void sort_running();
  // Moves the clock; ends of running jobs that are overdue move.
  void move_to(int64_t now_ms);
  // Changes to Ends::kAtLimits.
  void end_at_limits();
  size_t column_of(std::string_view name);
  uint32_t add_row(const ResourceSet& set);
  uint32_t pool_of(const std::string& name);
  uint32_t project_of(const std::string& name);
  uint32_t shape_of(const QueuedJob& job);
  Entry& entry_of(uint32_t job);
  Amount* row(uint32_t index) { return &rows[index * width]; }
  const Amount* row(uint32_t index) const { return &rows[index * width]; }
  uint32_t insert_running(Running run, bool in_order);
  void unlist_ends(uint32_t index);
  void list_ends(uint32_t index, bool in_order);
  void set_ends(Running& run) const;
  // Adds the holdings to the use of the project, or subtracts them.
  void book(const Running& run, int sign);
  void renew_share(Project& project) const;
  // Ends all running jobs that end until this time.
  void end_until(int64_t until);

  // ---- Nodes with room (node_fit.cc).

  // Best fit: fewer free GPUs, then the other columns, then the order of the view.
  bool comes_first(uint32_t a, uint32_t b) const;
  void sort_nodes(Pool& pool);
  void change_free(uint32_t node, const Amount* change, int sign);
  bool takes_jobs(uint32_t node) const { return (*nodes)[node].takes_jobs; }
  bool allowed_on(const Shape& shape, uint32_t node) const {
    return pool_of_node[node] == shape.pool && (shape.allowed.empty() || shape.allowed[node] != 0);
  }
  bool covers(const Amount* available, const Shape& shape) const {
    const Amount* need = row(shape.need);
    for (size_t i = 0; i < width; ++i) {
      if (need[i] > available[i] && need[i] > 0) return false;
    }
    return true;
  }
  // How many ranks of a job the amounts of a node have room for; at most one unless the job shares nodes.
  size_t ranks_in(const Amount* available, const Shape& shape) const;
  // The same for the free amounts of the node, less what these reservations keep.
  size_t ranks_on(uint32_t node, const Shape& shape, ReservationSet respected) const;
  // The first node in the order of the pool that has enough free GPUs.
  std::vector<uint32_t>::const_iterator first_with_gpus(const Shape& shape) const;
  // Fills `chosen` with nodes for a job that must respect these reservations: at most so many, and false if they are
  // fewer than the shape needs.
  bool choose(const Shape& shape, ReservationSet respected, size_t most);
  // The same, for whether there are enough.
  bool fits(const Shape& shape, ReservationSet respected) { return choose(shape, respected, shape.least); }
  void choose_shared(const Shape& shape, ReservationSet respected, size_t most);
  void raise_to(std::vector<Amount>& largest, uint32_t node) const;
  std::vector<std::string> names_of(const std::vector<uint32_t>& some) const;

  // ---- Order, quotas, limits and the pass (queue_pass.cc).

  // `must_block`: finds the blocked jobs even if nothing can start.
  void pass(int64_t now_ms, bool must_block);
  void clear_results();
  void begin_pass(int64_t now_ms);
  bool advance(Project& project, Bucket& bucket, bool must_block) const;
  void take_turn(Turns& turns, uint32_t project, size_t priority, bool must_block);
  void consider(const Entry& entry);
  void start(const Entry& entry, ReservationSet respected);
  // A job that must respect more reservations does not fit either.
  void fail(uint32_t index, ReservationSet respected);
  bool any_open(bool must_block) const;
  bool is_open(const Pool& pool, bool must_block) const;
  void remove_started();
  // Restores the state before the last pass.
  void undo_pass();
  // Lets the victims of the last pass end 1 ms later.
  void apply_preemptions();
  void append_order(std::vector<uint32_t>& result) const;
  bool over_quota(uint32_t job) const;
  // Column of the first resource of which the project would hold too much with a job on its least nodes. `alone`: even
  // if none of its jobs ran.
  std::optional<size_t> over_limit(const Project& project, const Shape& shape, bool alone) const;
  bool never(uint32_t job) const;

  // ---- The blocked job (reservations.cc).

  void block(uint32_t job);
  // The reservations that a job must respect if it starts now: those that begin before it ends.
  ReservationSet respected_by(const Pool& pool, const Entry& entry) const {
    ReservationSet set = 0;
    for (size_t i = 0; i < pool.reservation_count; ++i) {
      const int64_t run_ms = pool.reservations[i].by_limits ? entry.limit_ms : entry.planned_ms;
      if (run_ms == kJobNeverEnds || now + run_ms > pool.reservations[i].time) set |= 1u << i;
    }
    return set;
  }
  bool leaves_limit(const Pool& pool, const Entry& entry, ReservationSet respected) const;
  // How many nodes a job may take so that the project keeps its limit and leaves its reserved part.
  size_t nodes_within_limits(const Pool& pool, const Entry& entry, ReservationSet respected) const;
  // Finds the earliest time at which the shape fits if the running jobs end as listed. `later` is the state then.
  std::optional<Fit> earliest_fit(const Shape& shape, const std::vector<End>& by_end);
  // The nodes among fits_later with the least left, by rank.
  std::vector<uint32_t> tightest_later(const Shape& shape) const;
  // `later` is the state at that time. `on`: by rank, those of one node side by side.
  Fit fit_on(const Shape& shape, int64_t time, const std::vector<uint32_t>& on) const;
  // The nodes that lack the least for the shape, at an unknown time.
  Fit least_lacking(const Shape& shape);
  size_t add_reservation(Pool& pool, uint32_t job, Fit fit, bool by_limits);
  void drop_reservations(Pool& pool);
  std::vector<BlockedJob> blocked_jobs() const;

  // ---- Preemption (preemption.cc).

  bool may_preempt(uint32_t job) const;
  // Nodes on which the job fits when the leaving jobs and the victims have ended; none if there are no such nodes.
  std::optional<PreemptionFit> preemption_for(uint32_t job);

  // ---- Reasons (wait_reasons.cc).

  std::vector<Wait> waits();
  std::vector<NodeClass> node_classes(uint32_t pool) const;
  // `classes`, `largest`: of the whole pool, for shapes that may use all of its nodes.
  std::shared_ptr<const Shortage> shortage_of(const Shape& shape, const std::vector<NodeClass>& classes,
                                              std::vector<Amount> largest) const;
};

// Whether the job's pool, names and labels allow the node.
bool job_may_use(const PlanNode& node, const QueuedJob& job);
bool counts_as_urgent(JobPriority priority);
size_t priority_index(JobPriority priority);
// Why the cluster can never hold the job; empty if it can.
std::string reason_for_never(const std::vector<PlanNode>& nodes, const QueuedJob& job);
// "8 GPUs", "2 GiB of memory".
std::string text_of_job_amount(std::string_view resource, Amount amount);

}  // namespace volador::jobs
