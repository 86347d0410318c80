#include "jobs/queue/incremental_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "jobs/queue/planner_state.h"

namespace volador::jobs {
namespace {

constexpr size_t kFreeSortedAlone = 32;  // More nodes with changed amounts: sorts all nodes.
constexpr size_t kShapesMin = 256;       // Fewer shapes are never too many.

void drop_number(std::unordered_map<std::string, std::unordered_set<JobNumber>>& index, const std::string& key,
                 JobNumber number) {
  const auto found = index.find(key);
  if (found == index.end()) return;
  found->second.erase(number);
  if (found->second.empty()) index.erase(found);
}

bool same_but_free(const PlanNode& a, const PlanNode& b) {
  return a.name == b.name && a.takes_jobs == b.takes_jobs && a.pool == b.pool && a.total == b.total &&
         a.labels == b.labels;
}

}  // namespace

IncrementalPlanner::IncrementalPlanner(PlannerOptions options) : options_(std::move(options)) { rebuild(); }

IncrementalPlanner::~IncrementalPlanner() = default;

void IncrementalPlanner::rebuild() {
  const int64_t now = state_ ? state_->now : 0;
  state_ = std::make_unique<PlannerState>(nodes_, options_, QueueRun::Ends::kPredicted);
  state_->now = now;
  for (auto& [number, queued] : queue_) queued.slot = state_->add_job(queued.job, false);
  state_->sort_queue();
  for (auto& [number, runs] : running_) runs.slot = state_->add_running(runs.job, false);
  state_->sort_running();
}

// Shapes without jobs are kept for the next job that asks for the same.
void IncrementalPlanner::rebuild_if_wasteful() {
  if (state_->shapes.size() > kShapesMin + 2 * queue_.size()) rebuild();
}

void IncrementalPlanner::set_options(PlannerOptions options) {
  options_ = std::move(options);
  rebuild();
}

void IncrementalPlanner::set_nodes(std::span<const PlanNode> nodes) {
  if (!std::ranges::equal(nodes, nodes_, same_but_free)) {
    nodes_.assign(nodes.begin(), nodes.end());
    return rebuild();
  }
  std::vector<uint32_t> changed;
  for (uint32_t node = 0; node < nodes.size(); ++node) {
    if (nodes[node].free != nodes_[node].free) changed.push_back(node);
  }
  set_free(nodes, changed);
}

void IncrementalPlanner::set_free(std::span<const PlanNode> nodes, const std::vector<uint32_t>& changed) {
  std::vector<Amount> change;
  for (const uint32_t node : changed) {
    for (const auto& [name, amount] : nodes[node].free.entries()) state_->column_of(name);
    change.assign(state_->width, 0);
    for (const auto& [name, amount] : nodes[node].free.entries()) change[state_->column_of(name)] += amount;
    Amount* free = &state_->free[node * state_->width];
    for (size_t i = 0; i < state_->width; ++i) change[i] -= free[i];
    if (changed.size() <= kFreeSortedAlone) {
      state_->change_free(node, change.data(), +1);
    } else {
      for (size_t i = 0; i < state_->width; ++i) free[i] += change[i];
    }
    nodes_[node].free = nodes[node].free;
  }
  if (changed.size() <= kFreeSortedAlone) return;
  for (PlannerState::Pool& pool : state_->pools) state_->sort_nodes(pool);
}

void IncrementalPlanner::put(QueuedJob job) {
  erase(job.number);
  by_owner_[job.owner].insert(job.number);
  by_project_[job.project].insert(job.number);
  const uint32_t slot = state_->add_job(job, true);
  const JobNumber number = job.number;
  queue_.emplace(number, Queued{.job = std::move(job), .slot = slot});
  rebuild_if_wasteful();
}

bool IncrementalPlanner::erase(JobNumber number) {
  const auto found = queue_.find(number);
  if (found == queue_.end()) return false;
  drop_number(by_owner_, found->second.job.owner, number);
  drop_number(by_project_, found->second.job.project, number);
  state_->remove_job(found->second.slot);
  queue_.erase(found);
  return true;
}

const QueuedJob* IncrementalPlanner::find(JobNumber number) const {
  const auto found = queue_.find(number);
  return found == queue_.end() ? nullptr : &found->second.job;
}

std::vector<QueuedJob> IncrementalPlanner::queue() const {
  std::vector<QueuedJob> result;
  result.reserve(queue_.size());
  for (const auto& [number, queued] : queue_) result.push_back(queued.job);
  std::ranges::sort(result, {}, &QueuedJob::number);
  return result;
}

void IncrementalPlanner::set_promised(JobNumber number, int64_t promised_ms) {
  const auto found = queue_.find(number);
  if (found == queue_.end()) return;
  found->second.job.promised_ms = promised_ms;
  state_->jobs[found->second.slot].promised_ms = promised_ms;
}

void IncrementalPlanner::repredict(const RunTimePredictor& predictor, std::string_view owner,
                                   std::string_view project) {
  const auto renew = [&](const Numbers& index, std::string_view key) {
    const auto found = index.find(std::string(key));
    if (found == index.end()) return;
    for (const JobNumber number : found->second) {
      Queued& queued = queue_.at(number);
      const int64_t predicted = predictor.predict(queued.job.owner, queued.job.project, queued.job.limit_ms);
      if (predicted == queued.job.predicted_ms) continue;
      queued.job.predicted_ms = predicted;
      state_->set_predicted(queued.slot, predicted);
    }
  };
  renew(by_owner_, owner);
  renew(by_project_, project);
}

void IncrementalPlanner::put_running(RunningJob job) {
  erase_running(job.number);
  const uint32_t slot = state_->add_running(job, true);
  const JobNumber number = job.number;
  running_.emplace(number, Runs{.job = std::move(job), .slot = slot});
}

bool IncrementalPlanner::erase_running(JobNumber number) {
  const auto found = running_.find(number);
  if (found == running_.end()) return false;
  state_->remove_running(found->second.slot);
  running_.erase(found);
  return true;
}

const RunningJob* IncrementalPlanner::find_running(JobNumber number) const {
  const auto found = running_.find(number);
  return found == running_.end() ? nullptr : &found->second.job;
}

ClusterView IncrementalPlanner::view() const {
  ClusterView result{.nodes = nodes_, .running = {}};
  for (const auto& [number, runs] : running_) result.running.push_back(runs.job);
  std::ranges::sort(result.running, {}, &RunningJob::number);
  return result;
}

Plan IncrementalPlanner::plan(int64_t now_ms) const {
  PlannerState& state = *state_;
  state.move_to(now_ms);
  state.pass(now_ms, true);
  Plan result;
  for (const QueueRun::Start& start : state.starts) {
    result.start.emplace_back(state.jobs[start.job].number, Placement{.nodes = state.names_of(start.nodes)});
  }
  result.blocked = state.blocked_jobs();
  result.preempt = state.preempted;
  state.undo_pass();
  return result;
}

std::vector<Wait> IncrementalPlanner::waits(int64_t now_ms) const {
  state_->move_to(now_ms);
  state_->pass(now_ms, true);
  std::vector<Wait> result = state_->waits();
  state_->undo_pass();
  return result;
}

Forecast IncrementalPlanner::forecast(int64_t now_ms) const {
  state_->move_to(now_ms);
  std::vector<JobNumber> numbers(state_->jobs.size());
  for (size_t at = 0; at < numbers.size(); ++at) numbers[at] = state_->jobs[at].number;
  QueueRun likely(std::make_unique<PlannerState>(*state_));
  auto limits = std::make_unique<PlannerState>(*state_);
  limits->end_at_limits();
  QueueRun latest(std::move(limits));
  const Forecast all = run_forecast(likely, latest, numbers, now_ms, std::nullopt);
  Forecast result;
  result.jobs.reserve(queue_.size());
  for (const auto& [number, queued] : queue_) result.jobs.push_back(all.jobs[queued.slot]);
  std::ranges::sort(result.jobs, {}, &StartForecast::number);
  return result;
}

StartForecast IncrementalPlanner::forecast_until(std::unique_ptr<PlannerState> state, uint32_t slot,
                                                 int64_t now_ms) const {
  std::vector<JobNumber> numbers(state->jobs.size());
  for (size_t at = 0; at < numbers.size(); ++at) numbers[at] = state->jobs[at].number;
  auto limits = std::make_unique<PlannerState>(*state);
  limits->end_at_limits();
  QueueRun likely(std::move(state));
  QueueRun latest(std::move(limits));
  return run_forecast(likely, latest, numbers, now_ms, slot).jobs[slot];
}

Result<StartForecast> IncrementalPlanner::forecast_one(JobNumber number, int64_t now_ms) const {
  const auto found = queue_.find(number);
  if (found == queue_.end()) {
    return make_error(ErrorCode::kNotFound, fmt::format("job {}: the queue has no such job", number));
  }
  state_->move_to(now_ms);
  return forecast_until(std::make_unique<PlannerState>(*state_), found->second.slot, now_ms);
}

StartForecast IncrementalPlanner::forecast_of_new(const QueuedJob& job, int64_t now_ms) const {
  state_->move_to(now_ms);
  auto state = std::make_unique<PlannerState>(*state_);
  const uint32_t slot = state->add_job(job, true);
  return forecast_until(std::move(state), slot, now_ms);
}

}  // namespace volador::jobs
