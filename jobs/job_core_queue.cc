// Queue of the state machine: what starts, what waits and why.
#include <fmt/format.h>

#include <algorithm>

#include "jobs/job_core.h"
#include "jobs/job_spec.h"

namespace volador::jobs {
namespace {

using Record = protocol::JobRecord;

constexpr int64_t kHandOverAgainMs = 1000;
constexpr int64_t kForecastMs = 1000;
constexpr int64_t kGroupLeavesMs = 2000;  // Until then the head has removed a group.
constexpr int64_t kGrowAfterMs = 10'000;  // There is room for so long before a job grows,
constexpr int64_t kGrowAgainMs = 60'000;  // and so long has passed since it grew last.
constexpr size_t kProblemsInWait = 3;     // Health problems named in one reason.
constexpr size_t kForecastAlways = 50;    // Up to so many open jobs, a forecast costs less than a request.

// Text of a shortage: "needs gpus 4 on each of 2 nodes; the largest free part is 2".
Reason reason_of_lack(const Shortage& shortage) {
  if (!shortage.why_never.empty()) return Reason::said(shortage.why_never);
  if (shortage.resource.empty()) {
    return reason(shortage.shares_nodes ? "job.wait_ranks" : "job.wait_nodes", shortage.nodes_needed,
                  shortage.nodes_fitting, shortage.nodes_able);
  }
  ResourceSet needed;
  ResourceSet free;
  needed.set(shortage.resource, shortage.needed);
  free.set(shortage.resource, shortage.largest_free);
  const bool shares = shortage.shares_nodes;
  if (free.empty()) return reason(shares ? "job.wait_none_free_rank" : "job.wait_none_free", needed, shortage.resource);
  return reason(shares ? "job.wait_largest_rank" : "job.wait_largest", needed, free);
}

Reason reason_of_shortage(const Shortage& shortage) {
  const Reason lack = reason_of_lack(shortage);
  if (shortage.nodes_needed == shortage.nodes_most) return lack;
  return reason(shortage.shares_nodes ? "job.wait_elastic_ranks" : "job.wait_elastic", shortage.nodes_needed,
                shortage.nodes_most, lack);
}

Reason reason_of_wait(const Wait& wait) {
  const Reason lack = wait.shortage ? reason_of_shortage(*wait.shortage) : Reason();
  const std::string other = job_id(static_cast<int64_t>(wait.other));
  switch (wait.kind) {
    case WaitKind::kBehind:
      return and_also(reason("job.wait_behind", wait.ahead, other), lack);
    case WaitKind::kReserved:
      return reason("job.wait_reserved", other);
    case WaitKind::kUrgentQuota:
      return reason("job.wait_urgent");
    case WaitKind::kProjectLimit: {
      ResourceSet needed;
      ResourceSet held;
      ResourceSet limit;
      needed.set(wait.resource, wait.needed);
      held.set(wait.resource, wait.held);
      limit.set(wait.resource, wait.limit);
      return reason("job.wait_limit", limit, held, needed);
    }
    case WaitKind::kNever:
      return reason("job.wait_never", lack);
    case WaitKind::kNoRoom:
      break;
  }
  return lack;
}

}  // namespace

QueuedJob JobCore::queued(const Job& job) const {
  const v1::JobSpec& spec = job.spec();
  QueuedJob out;
  out.number = static_cast<JobNumber>(job.record.number());
  out.priority = parse_job_priority(spec.priority()).value_or(JobPriority::kNormal);
  out.project = spec.project();
  out.owner = owner_name(job.record.job());
  out.nodes = spec.nodes();
  out.per_node = resources_of(spec).value_or(ResourceSet());
  out.submitted_ms = job.record.job().submitted_ms();
  out.limit_ms = spec.duration_s() * 1000;
  out.predicted_ms = predictor_.predict(out.owner, out.project, out.limit_ms);
  out.node_names.assign(spec.node_names().begin(), spec.node_names().end());
  out.labels.insert(spec.labels().begin(), spec.labels().end());
  out.pool = spec.pool();
  out.promised_ms = job.promised_ms;
  out.min_nodes = spec.min_nodes();
  out.shares_nodes = spec.share_nodes();
  out.avoids.assign(job.record.job().avoids().begin(), job.record.job().avoids().end());
  return out;
}

// Uses up the job's room in the view, which the view does not show yet.
void JobCore::take_room(const Job& job) {
  for (const auto& [name, resources] : job.held) {
    const auto at = node_index_.find(name);
    if (at == node_index_.end()) continue;
    ResourceSet& free = cluster_.view.nodes[at->second].free;
    for (const auto& [of, amount] : resources.entries()) free.set(of, std::max<Amount>(0, free.get(of) - amount));
  }
}

// Brings the job's entry among the running jobs up to date.
void JobCore::update_running(const Job& job) {
  const auto number = static_cast<JobNumber>(job.record.number());
  const v1::Job& shown = job.record.job();
  add_held(number, -1);
  planner_.put_running(
      {.number = number,
       .started_ms = shown.started_ms() != 0 ? shown.started_ms() : shown.submitted_ms(),
       .limit_ms = job.spec().duration_s() * 1000,
       .predicted_ms = predictor_.predict(owner_name(shown), job.spec().project(), job.spec().duration_s() * 1000),
       .project = job.spec().project(),
       .held = job.held,
       .priority = parse_job_priority(job.spec().priority()).value_or(JobPriority::kNormal),
       .leaving = job.leaves_ms != 0,
       .ends_ms = job.leaves_ms});
  add_held(number, 1);
}

void JobCore::drop_running(int64_t number) {
  add_held(static_cast<JobNumber>(number), -1);
  planner_.erase_running(static_cast<JobNumber>(number));
}

// Adds what the running job holds to held_, or removes it.
void JobCore::add_held(JobNumber running, int sign) {
  const RunningJob* job = planner_.find_running(running);
  if (job == nullptr) return;
  for (const auto& [node, resources] : job->held) {
    ResourceSet& all = held_[node];
    if (sign > 0) {
      all += resources;
    } else {
      all -= resources;
      if (all.empty()) held_.erase(node);
    }
  }
}

void JobCore::record_run(const Job& job, int64_t run_ms) {
  const std::string& owner = owner_name(job.record.job());
  predictor_.record(owner, job.spec().project(), run_ms, job.spec().duration_s() * 1000);
  planner_.repredict(predictor_, owner, job.spec().project());
}

void JobCore::enqueue(Job& job) {
  QueuedJob entry = queued(job);
  auto& same = waiting_.at(static_cast<size_t>(entry.priority));
  same.insert(std::ranges::lower_bound(same, job.record.number()), job.record.number());
  planner_.put(std::move(entry));
}

void JobCore::dequeue(int64_t number) {
  if (!planner_.erase(static_cast<JobNumber>(number))) return;
  for (auto& same : waiting_) {
    const auto at = std::ranges::lower_bound(same, number);
    if (at != same.end() && *at == number) same.erase(at);
  }
}

// The planner with what is free now.
IncrementalPlanner& JobCore::planner() const {
  planner_.set_nodes(cluster_.view.nodes);
  return planner_;
}

// In the queue by priority, then by number, from 1.
int64_t JobCore::position(const Job& job) const {
  const auto mine = static_cast<size_t>(parse_job_priority(job.spec().priority()).value_or(JobPriority::kNormal));
  const auto& same = waiting_.at(mine);
  int64_t ahead = std::ranges::lower_bound(same, job.record.number()) - same.begin();
  for (size_t higher = mine + 1; higher < waiting_.size(); ++higher)
    ahead += static_cast<int64_t>(waiting_.at(higher).size());
  return ahead + 1;
}

const std::map<int64_t, StartForecast>& JobCore::forecasts(int64_t now_ms) const {
  // A long queue takes a while: about 1 s for 10,000 jobs.
  const int64_t valid_ms = kForecastMs + static_cast<int64_t>(planner_.size());
  const bool is_fresh = now_ms - forecast_at_ms_ < valid_ms && now_ms >= forecast_at_ms_;
  if (is_fresh && (open_.size() > kForecastAlways || now_ms == forecast_at_ms_)) return forecasts_;
  forecast_at_ms_ = now_ms;
  forecasts_.clear();
  if (!seen_cluster_) return forecasts_;
  for (const StartForecast& one : planner().forecast(now_ms).jobs) forecasts_[static_cast<int64_t>(one.number)] = one;
  return forecasts_;
}

void JobCore::plan(int64_t now_ms) {
  if (!seen_cluster_) {
    actions_.look = true;
    return;
  }
  for (const int64_t number : std::exchange(newly_ending_, {})) {
    const auto found = jobs_.find(number);
    if (found == jobs_.end() || found->second.record.phase() != Record::ENDING) continue;
    Job& job = found->second;
    if (job.leaves_ms == 0) job.leaves_ms = now_ms + job.spec().graceful_s() * 1000;
    update_running(job);
  }
  if (planner_.size() == 0) return grow(now_ms);
  const Plan made = planner().plan(now_ms);
  waits_stale_at_ms_ = now_ms;
  for (const BlockedJob& blocked : made.blocked) {
    int64_t& promised = jobs_.at(static_cast<int64_t>(blocked.number)).promised_ms;
    if (promised == 0) promised = blocked.likely_ms;
    planner_.set_promised(blocked.number, promised);
  }
  for (const auto& [number, placement] : made.start) {
    Job& job = jobs_.at(static_cast<int64_t>(number));
    if (job.record.phase() != Record::QUEUED) continue;  // An alternative that comes first has started.
    const auto count = static_cast<int>(placement.nodes.size());
    if (count < job.spec().nodes() && awaits_own_nodes(job, now_ms)) continue;
    begin(job, placement.nodes, now_ms);
    stop_alternatives(job, now_ms);
  }
  for (const Preemption& one : made.preempt) {
    if (jobs_.at(static_cast<int64_t>(one.by)).record.phase() != Record::QUEUED) continue;
    preempt(jobs_.at(static_cast<int64_t>(one.victim)), static_cast<int64_t>(one.by), now_ms);
  }
  for (const BlockedJob& blocked : made.blocked) {
    if (jobs_.at(static_cast<int64_t>(blocked.number)).record.phase() != Record::QUEUED) continue;
    const bool preempts =
        std::ranges::any_of(made.preempt, [&](const Preemption& one) { return one.by == blocked.number; });
    if (!preempts) hand_over(jobs_.at(static_cast<int64_t>(blocked.number)), now_ms);
  }
  grow(now_ms);
}

// Ends the queued alternatives of a job that has begun.
void JobCore::stop_alternatives(const Job& job, int64_t now_ms) {
  const std::string one_of = job.spec().one_of();
  if (one_of.empty()) return;
  std::vector<int64_t> others;
  for (const int64_t number : open_) {
    const Job& other = jobs_.at(number);
    const bool is_queued = other.record.phase() == Record::QUEUED;
    if (is_queued && other.spec().one_of() == one_of && same_owner(other.record.job(), job.record.job()))
      others.push_back(number);
  }
  const Reason why = reason("job.other_started", job.record.job().id());
  for (const int64_t number : others) set_end(jobs_.at(number), "stopped", why, now_ms);
}

// Ends the running job to make room. It is queued again at its old place.
void JobCore::preempt(Job& job, int64_t by, int64_t now_ms) {
  Record& record = job.record;
  if (record.phase() != Record::PLACING && record.phase() != Record::RUNNING) return;
  const Job& other = jobs_.at(by);
  record.mutable_job()->set_preemptions(record.job().preemptions() + 1);
  set_reason(*record.mutable_job(), reason("job.preempted", job_id(by), public_name(other), other.spec().priority()));
  event("job is preempted", {{"job", record.job().id()}, {"by", job_id(by)}});
  report(job, "preempted", now_ms);
  end_ranks(job, "queued", false);
  settle(job, now_ms);
}

// Whether an elastic job that is queued again would start on too few nodes: the bundles of its group, which is removed,
// still look used.
bool JobCore::awaits_own_nodes(const Job& job, int64_t now_ms) const {
  return is_elastic(job.spec()) && !leaving_groups_.empty() && now_ms < job.again_ms + kGroupLeavesMs;
}

// Requests the blocked job from the head's scheduler if only actors and trials are in its way: there it waits its turn
// among them, while here it would wait until they leave room by chance.
void JobCore::hand_over(Job& job, int64_t now_ms) {
  if (awaits_own_nodes(job, now_ms)) return;
  NotHandedOver& last = not_handed_over_[job.spec().pool()];
  if (last.number == job.record.number() && now_ms - last.at_ms < kHandOverAgainMs) return;
  last = {.number = job.record.number(), .at_ms = now_ms};
  ClusterView view{.nodes = cluster_.view.nodes, .running = running_of_project(job)};
  bool others = false;  // Whether actors and trials use anything.
  for (PlanNode& node : view.nodes) {
    const auto held = held_.find(node.name);
    for (const auto& [of, total] : node.total.entries()) {
      const Amount taken = held == held_.end() ? 0 : held->second.get(of);
      const auto bad = of == "gpus" ? cluster_.withheld_gpus.find(node.name) : cluster_.withheld_gpus.end();
      const Amount withheld = bad == cluster_.withheld_gpus.end() ? 0 : bad->second;
      const Amount left = std::max<Amount>(0, total - taken - withheld);
      others |= node.free.get(of) < left;
      node.free.set(of, left);
    }
  }
  if (!others) return;
  std::vector<QueuedJob> alone{queued(job)};
  alone.front().nodes = alone.front().least_nodes();  // The sooner it has them.
  const Plan made = jobs::plan(view, alone, now_ms, planner_.options());
  if (made.start.empty()) return;
  const Reason waits = reason("job.wait_other", wait_reason(job));
  last = {};
  begin(job, made.start.front().second.nodes, now_ms);
  job.waits = waits;
  stop_alternatives(job, now_ms);
}

// The other running jobs of its project, if that has a limit or a quota.
std::vector<RunningJob> JobCore::running_of_project(const Job& job) const {
  std::vector<RunningJob> out;
  const std::string& project = job.spec().project();
  const PlannerOptions& options = planner_.options();
  if (!options.limits.contains(project) && !options.urgent_quota.contains(project)) return out;
  for (const int64_t number : active_) {
    const RunningJob* runs = planner_.find_running(static_cast<JobNumber>(number));
    if (runs != nullptr && runs->project == project && number != job.record.number()) out.push_back(*runs);
  }
  return out;
}

// Whether the job wants more nodes than it has, and may be asked for it now.
bool JobCore::may_grow(const Job& job, int64_t now_ms) const {
  const protocol::JobRecord& record = job.record;
  return job.spec().grow() && record.phase() == Record::RUNNING && record.job().debug_until_ms() == 0 &&
         record.job().ranks_size() < job.spec().nodes() &&
         (record.grown_ms() == 0 || now_ms - record.grown_ms() >= kGrowAgainMs);
}

// Pools in which a job waits for room.
std::set<std::string> JobCore::awaited_pools() const {
  std::set<std::string> pools;
  if (planner_.size() == 0) return pools;
  for (const auto& [number, wait] : waits()) {
    const bool for_room =
        wait.kind == WaitKind::kBehind || wait.kind == WaitKind::kNoRoom || wait.kind == WaitKind::kReserved;
    if (for_room) pools.insert(jobs_.at(static_cast<int64_t>(number)).spec().pool());
  }
  return pools;
}

// On how many nodes the running job could go on now.
size_t JobCore::room_of(const Job& job, int64_t now_ms) const {
  ClusterView view{.nodes = cluster_.view.nodes, .running = running_of_project(job)};
  for (const auto& [name, resources] : job.held) {
    if (const auto at = node_index_.find(name); at != node_index_.end()) view.nodes[at->second].free += resources;
  }
  const std::vector<QueuedJob> alone{queued(job)};
  const Plan made = jobs::plan(view, alone, now_ms, planner_.options());
  return made.start.empty() ? 0 : made.start.front().second.nodes.size();
}

// Asks a running elastic job to save its state and to go on with more nodes, if there has been room for a while that
// nothing in the queue waits for. One at a time: several would count on the same nodes.
void JobCore::grow(int64_t now_ms) {
  if (growing_.empty()) return;
  for (const int64_t number : active_) {
    const Job& job = jobs_.at(number);
    if (job.record.phase() == Record::ENDING && job.record.outcome() == "queued") return;  // It needs the room first.
  }
  std::vector<int64_t> candidates;
  for (const int64_t number : growing_) {
    Job& job = jobs_.at(number);
    if (may_grow(job, now_ms)) {
      candidates.push_back(number);
    } else {
      job.room_since_ms = 0;
    }
  }
  if (candidates.empty()) return;
  const std::set<std::string> awaited = awaited_pools();
  for (const int64_t number : candidates) {
    Job& job = jobs_.at(number);
    const int nodes = job.record.job().ranks_size();
    const size_t room = !awaited.contains(job.spec().pool()) ? room_of(job, now_ms) : 0;
    if (room <= static_cast<size_t>(nodes)) {
      job.room_since_ms = 0;
      continue;
    }
    if (job.room_since_ms == 0 || now_ms < job.room_since_ms) job.room_since_ms = now_ms;
    if (now_ms - job.room_since_ms < kGrowAfterMs) continue;
    job.record.set_grown_ms(now_ms);
    set_reason(*job.record.mutable_job(),
               reason(job.spec().share_nodes() ? "job.grows_ranks" : "job.grows", nodes, room));
    event("job grows",
          {{"job", job.record.job().id()}, {"nodes", std::to_string(nodes)}, {"to", std::to_string(room)}});
    end_ranks(job, "queued", false);
    settle(job, now_ms);
    return;
  }
}

// Why jobs wait, by the last plan.
const std::unordered_map<JobNumber, Wait>& JobCore::waits() const {
  if (waits_stale_at_ms_) {
    waits_.clear();
    for (Wait& wait : planner().waits(*waits_stale_at_ms_)) {
      const JobNumber number = wait.number;
      waits_.emplace(number, std::move(wait));
    }
    waits_stale_at_ms_.reset();
  }
  return waits_;
}

// Why a queued job waits, by the last plan; empty: it was not planned yet.
Reason JobCore::wait_reason(const Job& job) const {
  const auto& all = waits();
  const auto at = all.find(static_cast<JobNumber>(job.record.number()));
  if (at == all.end()) return {};
  Reason why = reason_of_wait(at->second);
  if (at->second.kind != WaitKind::kNoRoom) return why;
  size_t named = 0;
  for (const auto& [node, problem] : problems_for(job)) {
    if (++named > kProblemsInWait) break;
    why = and_also(std::move(why),
                   reason(problem.of_gpu ? "waits.gpu_problem" : "waits.node_problem", node, problem.what));
  }
  return why;
}

}  // namespace volador::jobs
