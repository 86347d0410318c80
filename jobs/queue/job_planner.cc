#include "jobs/queue/job_planner.h"

#include "jobs/queue/planner_state.h"

namespace volador::jobs {

QueueRun::QueueRun(const ClusterView& cluster, std::span<const QueuedJob> queue, int64_t now_ms,
                   const PlannerOptions& options, Ends ends)
    : state_(std::make_unique<PlannerState>(cluster.nodes, options, ends)) {
  state_->now = now_ms;
  state_->jobs.reserve(queue.size());
  for (const QueuedJob& job : queue) state_->add_job(job, false);
  state_->sort_queue();
  for (const RunningJob& job : cluster.running) state_->add_running(job, false);
  state_->sort_running();
}

QueueRun::QueueRun(std::unique_ptr<PlannerState> state) : state_(std::move(state)) {}

QueueRun::~QueueRun() = default;

const std::vector<QueueRun::Start>& QueueRun::pass(int64_t now_ms, bool find_blocked) {
  state_->pass(now_ms, find_blocked);
  state_->remove_started();
  state_->apply_preemptions();
  return state_->starts;
}

int64_t QueueRun::next_end_ms() const { return state_->by_plan.empty() ? kUnknown : state_->by_plan.back().first; }
void QueueRun::end_until(int64_t now_ms) { state_->end_until(now_ms); }
bool QueueRun::never(size_t job) const { return state_->never(static_cast<uint32_t>(job)); }
size_t QueueRun::waiting() const { return state_->waiting_jobs; }
void QueueRun::append_order(std::vector<uint32_t>& jobs) const { state_->append_order(jobs); }
std::vector<Wait> QueueRun::waits() { return state_->waits(); }
std::vector<BlockedJob> QueueRun::blocked() const { return state_->blocked_jobs(); }
const std::vector<Preemption>& QueueRun::preempted() const { return state_->preempted; }

Plan plan(const ClusterView& cluster, std::span<const QueuedJob> queue, int64_t now_ms, const PlannerOptions& options) {
  QueueRun run(cluster, queue, now_ms, options, QueueRun::Ends::kPredicted);
  Plan result;
  for (const QueueRun::Start& start : run.pass(now_ms)) {
    Placement placement;
    for (const uint32_t node : start.nodes) placement.nodes.push_back(cluster.nodes[node].name);
    result.start.emplace_back(queue[start.job].number, std::move(placement));
  }
  result.waits = run.waits();
  result.blocked = run.blocked();
  result.preempt = run.preempted();
  return result;
}

}  // namespace volador::jobs
