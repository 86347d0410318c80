#include "jobs/job_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "jobs/command.h"
#include "jobs/job_spec.h"
#include "jobs/launch/launch.h"
#include "runtime/protocol/resource_map.h"
#include "runtime/quantities.h"

namespace volador::jobs {
namespace {

using Cause = protocol::DeathCause;
using Record = protocol::JobRecord;

constexpr int kPortFirst = 20'000;
constexpr int kPorts = 10'000;
constexpr int kEarlierMax = 64;
constexpr int kListDefault = 1000;
constexpr size_t kPlanAtOnce = 200;  // Jobs in the queue up to which each submission is planned by itself.
constexpr int64_t kHandOverAgainMs = 1000;
constexpr int64_t kForecastMs = 1000;
constexpr size_t kForecastAlways = 50;            // Up to so many open jobs, a forecast costs less than a request.
constexpr int64_t kStartTimeoutMs = 10 * 60'000;  // A large code folder takes a while to arrive and to be unpacked.

std::string key_of(int64_t number) {
  std::string key(8, '\0');
  for (int i = 0; i < 8; ++i) key[static_cast<size_t>(i)] = static_cast<char>(number >> (56 - 8 * i));
  return key;
}

std::string id_of(int64_t number) { return fmt::format("job-{}", number); }

// Only the first rank runs the command and starts the others.
bool leads(const v1::JobSpec& spec) {
  return spec.mode() == "horovod" || spec.mode() == "mpi" || spec.mode() == "deepspeed";
}

// Adds a rule for each label that the job's nodes must have.
void require_labels(const v1::JobSpec& spec, google::protobuf::RepeatedPtrField<protocol::LabelRule>& rules) {
  for (const auto& [name, value] : spec.labels()) {
    protocol::LabelRule& rule = *rules.Add();
    rule.set_key(name);
    rule.set_op(protocol::LabelRule::IN);
    rule.add_values(value);
  }
}

int exit_code_of(const Cause& cause) {
  switch (cause.kind()) {
    case Cause::EXITED:
      return cause.exit_code();
    case Cause::SIGNALED:
      return 128 + cause.signal();
    case Cause::OUT_OF_MEMORY:
      return 128 + 9;
    default:
      return 1;
  }
}

bool succeeded(const Cause& cause) { return cause.kind() == Cause::EXITED && cause.exit_code() == 0; }
// The node failed, not the job.
bool lost_with_node(const Cause& cause) {
  return cause.kind() == Cause::NODE_LOST || cause.kind() == Cause::LEASE_LOST;
}

Reason reason_in(const Cause& cause) {
  if (!cause.why().empty()) {
    if (auto known = Reason::from_json(cause.why())) return *known;
  }
  return Reason::said(cause.message());
}

std::string_view state_name(protocol::ActorState state) {
  switch (state) {
    case protocol::STARTING:
      return "starting";
    case protocol::ALIVE:
    case protocol::RESTARTING:
      return "running";
    case protocol::DEAD:
      return "ended";
    default:
      return "pending";
  }
}

Result<void> check_priority(const std::string& text, const Requester& by) {
  const auto priority = parse_job_priority(text);
  if (!priority) return make_error(priority.error());
  if (*priority != JobPriority::kVeryUrgent || by.operates) return {};
  return make_error(ErrorCode::kPermissionDenied,
                    "priority: very_urgent is for operators; this token may use normal and urgent");
}

void fill(const StartForecast& forecast, v1::JobStart& out) {
  out.set_never(forecast.never);
  out.set_likely_ms(forecast.likely_ms);
  out.set_latest_ms(forecast.latest_ms);
  out.set_ahead(forecast.ahead);
}

// Text of a shortage: "needs gpus 4 on each of 2 nodes; the largest free part is 2".
Reason reason_of_shortage(const Shortage& shortage) {
  if (!shortage.why_never.empty()) return Reason::said(shortage.why_never);
  if (shortage.resource.empty())
    return reason("job.wait_nodes", shortage.nodes_needed, shortage.nodes_fitting, shortage.nodes_able);
  ResourceSet needed;
  ResourceSet free;
  needed.set(shortage.resource, shortage.needed);
  free.set(shortage.resource, shortage.largest_free);
  if (free.empty()) return reason("job.wait_none_free", needed, shortage.resource);
  return reason("job.wait_largest", needed, free);
}

Reason reason_of_wait(const Wait& wait) {
  const Reason lack = wait.shortage ? reason_of_shortage(*wait.shortage) : Reason();
  const std::string other = id_of(static_cast<int64_t>(wait.other));
  switch (wait.kind) {
    case WaitKind::kBehind:
      return and_also(reason("job.wait_behind", wait.ahead, other), lack);
    case WaitKind::kReserved:
      return reason("job.wait_reserved", other);
    case WaitKind::kUrgentQuota:
      return reason("job.wait_urgent");
    case WaitKind::kProjectLimit:
      return Reason::said(wait.text());
    case WaitKind::kNever:
      return reason("job.wait_never", lack);
    case WaitKind::kNoRoom:
      break;
  }
  return lack;
}

}  // namespace

// ---- journal ----

bool JobCore::load(std::string_view table, std::string_view key, std::string_view value) {
  if (table == kJobsHeadTable && key == "driver") {
    driver_ = id_from_raw<DriverId>(value);
    return !driver_.is_nil();
  }
  if (table == kJobsHeadTable && key == "program") {
    program_ = value;
    return true;
  }
  if (table == kJobsHeadTable && key == "last") {
    int64_t last = 0;
    const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), last);
    last_ = std::max(last_, last);
    return failed == std::errc();
  }
  if (table == kLeavingGroupsTable) {
    leaving_groups_.emplace(key);
    return true;
  }
  if (table != kJobsTable) return false;
  Job job;
  if (!job.record.ParseFromArray(value.data(), static_cast<int>(value.size())) || job.record.number() <= 0)
    return false;
  const int64_t number = job.record.number();
  jobs_[number] = std::move(job);
  last_ = std::max(last_, number);
  return true;
}

void JobCore::start(int64_t now_ms) {
  std::vector<std::pair<int64_t, int64_t>> ends;
  for (auto& [number, job] : jobs_) {
    Record& record = job.record;
    if (record.phase() == Record::ENDED) {
      ends.emplace_back(record.job().ended_ms(), number);
      if (record.job().state() == "succeeded") record_run(job, record.job().ended_ms() - record.job().started_ms());
      continue;
    }
    open_.insert(number);
    if (record.phase() == Record::QUEUED) {
      enqueue(job);
      continue;
    }
    active_.insert(number);
    if (!record.group_id().empty()) by_group_[record.group_id()] = number;
    const auto held = resources_of(job.spec()).value_or(ResourceSet());
    for (int i = 0; i < record.actor_ids_size(); ++i) {
      const auto actor = id_from_raw<ActorId>(record.actor_ids(i));
      job.ranks.push_back({.actor = actor});
      by_actor_[actor] = number;
    }
    for (const v1::JobRank& rank : record.job().ranks()) job.held.emplace_back(rank.node(), held);
    update_running(job);
  }
  std::sort(ends.begin(), ends.end());
  for (const auto& [time, number] : ends) ended_.push_back(number);
  drop_oldest();
  if (any_open()) actions_.look = true;
  (void)now_ms;
}

void JobCore::use_program(const std::string& sha256) {
  if (!driver_.is_nil() && program_ == sha256) return;
  driver_ = new_id<DriverId>(random_);
  program_ = sha256;
  actions_.rows.push_back({std::string(kJobsHeadTable), "driver", raw(driver_)});
  actions_.rows.push_back({std::string(kJobsHeadTable), "program", program_});
}

void JobCore::event(std::string text, std::vector<std::pair<std::string, std::string>> fields) {
  actions_.events.push_back({.text = std::move(text), .fields = std::move(fields)});
}

void JobCore::keep(Job& job) {
  actions_.rows.push_back({std::string(kJobsTable), key_of(job.record.number()), job.record.SerializeAsString()});
}

void JobCore::drop_oldest() {
  while (ended_.size() > limits_.ended) {
    forget(ended_.front());
    ended_.pop_front();
  }
}

// Removes an ended job. Its number is not used again.
void JobCore::forget(int64_t number) {
  actions_.rows.push_back({std::string(kJobsTable), key_of(number), std::nullopt});
  if (number == last_) actions_.rows.push_back({std::string(kJobsHeadTable), "last", std::to_string(last_)});
  jobs_.erase(number);
}

// ---- requests ----

const JobCore::Job* JobCore::find(const std::string& name, Error* why) const {
  std::string_view digits = name;
  if (digits.starts_with("job-")) digits.remove_prefix(4);
  int64_t number = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (failed == std::errc() && end == digits.data() + digits.size()) {
    if (const auto found = jobs_.find(number); found != jobs_.end()) return &found->second;
  }
  std::vector<const Job*> named;
  for (const auto& [each, job] : jobs_) {
    if (job.spec().name() == name) named.push_back(&job);
  }
  if (named.size() == 1) return named.front();
  if (named.empty()) {
    *why = {ErrorCode::kNotFound,
            fmt::format("there is no job \"{}\"; `volador job list` shows the jobs (the oldest ended ones are dropped)",
                        name)};
  } else {
    *why = {ErrorCode::kNotFound,
            fmt::format("\"{}\" is the name of {} jobs, from {} to {}; use an id", name, named.size(),
                        id_of(named.front()->record.number()), id_of(named.back()->record.number()))};
  }
  return nullptr;
}

JobCore::Job* JobCore::find(const std::string& name, Error* why) {
  return const_cast<Job*>(std::as_const(*this).find(name, why));
}

Result<JobCore::Job*> JobCore::change(const std::string& name, const Requester& by, std::string_view what) {
  Error why;
  Job* job = find(name, &why);
  if (job == nullptr) return make_error(why);
  if (by.operates || job->record.job().owner() == by.token_id) return job;
  return make_error(
      ErrorCode::kPermissionDenied,
      fmt::format("{} {}: it was submitted with token {}, this request comes with token {}; use its token, "
                  "or one of role operator",
                  what, job->record.job().id(), job->record.job().owner(), by.token_id));
}

Result<v1::SubmitJobReply> JobCore::submit(const v1::SubmitJobRequest& request, const Requester& by,
                                           int64_t files_bytes, int64_t now_ms) {
  auto spec = checked_spec(request.spec());
  if (!spec) return make_error(spec.error());
  if (auto allowed = check_priority(spec->priority(), by); !allowed) return make_error(allowed.error());
  if (open_.size() >= limits_.open) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{} are queued or running, the limit; submit again when some "
                                  "have ended",
                                  counted(open_.size(), "job")));
  }
  Job job;
  v1::Job& shown = *job.record.mutable_job();
  const int64_t number = last_ + 1;
  *shown.mutable_spec() = std::move(*spec);
  if (shown.spec().name().empty()) shown.mutable_spec()->set_name(id_of(number));
  shown.set_state("queued");
  shown.set_submitted_ms(now_ms);
  shown.set_owner(by.token_id);
  job.record.set_number(number);
  job.record.set_phase(Record::QUEUED);
  job.record.set_files_bytes(files_bytes);
  if (seen_cluster_) {
    // Without any node it waits for the first.
    const auto feasible = check_feasible(cluster_.view, queued(job));
    if (!feasible && feasible.error().code != ErrorCode::kUnavailable) return make_error(feasible.error());
  }
  v1::SubmitJobReply reply;
  if (request.dry_run()) {
    std::vector<QueuedJob> queue = refreshed_queue();
    queue.push_back(queued(job));
    if (const auto start = forecast_one(cluster_.view, queue, static_cast<JobNumber>(number), now_ms, options_)) {
      fill(*start, *shown.mutable_start());
      shown.mutable_start()->set_now(!start->never && start->likely_ms != 0 && start->likely_ms <= now_ms);
    }
    *reply.mutable_job() = shown;
    return reply;
  }
  shown.set_id(id_of(number));
  last_ = number;
  open_.insert(number);
  Job& stored = jobs_[number] = std::move(job);
  enqueue(stored);
  keep(stored);
  event("job submitted", {{"job", id_of(number)}, {"name", stored.spec().name()}});
  if (queue_.size() <= kPlanAtOnce) {
    plan(now_ms);
  } else {
    actions_.look = true;  // One plan for all that are submitted together.
  }
  *reply.mutable_job() = row(stored, now_ms);
  return reply;
}

Result<v1::Job> JobCore::get(const std::string& job, int64_t now_ms) const {
  Error why;
  const Job* found = find(job, &why);
  if (found == nullptr) return make_error(why);
  return row(*found, now_ms);
}

v1::ListJobsReply JobCore::list(const v1::ListJobsRequest& request, int64_t now_ms) const {
  v1::ListJobsReply reply;
  const int limit = request.limit() > 0 ? request.limit() : kListDefault;
  int64_t total = 0;
  for (auto at = jobs_.rbegin(); at != jobs_.rend(); ++at) {
    const Job& job = at->second;
    const v1::Job& shown = job.record.job();
    const bool open = job.record.phase() != Record::ENDED;
    if (request.state() == "open" ? !open : !request.state().empty() && request.state() != shown.state()) continue;
    if (!request.name().empty() && job.spec().name().find(request.name()) == std::string::npos) continue;
    if (!request.project().empty() && request.project() != job.spec().project()) continue;
    if (!request.owner().empty() && request.owner() != shown.owner()) continue;
    if (++total <= limit) *reply.add_jobs() = row(job, now_ms);
  }
  reply.set_total(total);
  return reply;
}

Result<v1::Job> JobCore::stop(const v1::StopJobRequest& request, const Requester& by, int64_t now_ms) {
  auto found = change(request.job(), by, "stop");
  if (!found) return make_error(found.error());
  Job& job = **found;
  if (job.record.phase() == Record::ENDED) return row(job, now_ms);
  // A job that ends by itself keeps its outcome, unless that was to start again.
  if (job.record.phase() == Record::ENDING && job.record.outcome() != "queued") {
    if (request.now()) end_ranks(job, job.record.outcome(), true);
    return row(job, now_ms);
  }
  set_reason(*job.record.mutable_job(), reason("job.stopped_by", by.token_id));
  if (job.record.phase() == Record::QUEUED) {
    set_end(job, "stopped", reason("job.stopped_by", by.token_id), now_ms);
  } else {
    end_ranks(job, "stopped", request.now());
    settle(job, now_ms);
  }
  actions_.look = true;
  return row(job, now_ms);
}

Result<void> JobCore::remove(const v1::DeleteJobRequest& request, const Requester& by, int64_t) {
  auto found = change(request.job(), by, "delete");
  if (!found) return make_error(found.error());
  const Job& job = **found;
  if (job.record.phase() != Record::ENDED) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("delete {0}: it is {1}; stop it first with `volador job stop {0}`",
                                  job.record.job().id(), job.record.job().state()));
  }
  const int64_t number = job.record.number();
  std::erase(ended_, number);
  forget(number);
  return {};
}

Result<v1::Job> JobCore::set_priority(const v1::SetJobPriorityRequest& request, const Requester& by, int64_t now_ms) {
  auto found = change(request.job(), by, "set the priority of");
  if (!found) return make_error(found.error());
  Job& job = **found;
  if (auto allowed = check_priority(request.priority(), by); !allowed) return make_error(allowed.error());
  if (job.record.phase() != Record::QUEUED) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("set the priority of {}: it has effect in the queue only, and this job {}", job.record.job().id(),
                    job.record.phase() == Record::PLACING ? "starts" : "is " + job.record.job().state()));
  }
  job.record.mutable_job()->mutable_spec()->set_priority(request.priority());
  dequeue(job.record.number());
  enqueue(job);
  keep(job);
  actions_.look = true;
  return row(job, now_ms);
}

Result<v1::Job> JobCore::extend(const v1::ExtendJobRequest& request, const Requester& by, int64_t now_ms) {
  auto found = change(request.job(), by, "extend");
  if (!found) return make_error(found.error());
  Job& job = **found;
  if (request.duration_s() < 0 || request.duration_s() > kDurationMaxS) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("duration_s: expected 0 (unlimited) to {}, got {}",
                                                               kDurationMaxS, request.duration_s()));
  }
  if (job.record.phase() == Record::ENDED || job.record.phase() == Record::ENDING) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("extend {}: it ends or has ended ({})",
                                                               job.record.job().id(), job.record.job().state()));
  }
  job.record.mutable_job()->mutable_spec()->set_duration_s(request.duration_s());
  if (job.record.phase() == Record::QUEUED) {
    dequeue(job.record.number());
    enqueue(job);
    actions_.look = true;
  } else {
    update_running(job);
  }
  keep(job);
  return row(job, now_ms);
}

// ---- planning ----

QueuedJob JobCore::queued(const Job& job) const {
  const v1::JobSpec& spec = job.spec();
  QueuedJob out;
  out.number = static_cast<JobNumber>(job.record.number());
  out.priority = parse_job_priority(spec.priority()).value_or(JobPriority::kNormal);
  out.project = spec.project();
  out.owner = job.record.job().owner();
  out.nodes = spec.nodes();
  out.per_node = resources_of(spec).value_or(ResourceSet());
  out.submitted_ms = job.record.job().submitted_ms();
  out.limit_ms = spec.duration_s() * 1000;
  out.predicted_ms = predictor_.predict(out.owner, out.project, out.limit_ms);
  out.node_names.assign(spec.node_names().begin(), spec.node_names().end());
  out.labels.insert(spec.labels().begin(), spec.labels().end());
  out.promised_ms = job.promised_ms;
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
  auto& all = cluster_.view.running;
  auto at = std::ranges::find(all, number, &RunningJob::number);
  if (at == all.end()) at = all.insert(all.end(), RunningJob());
  const v1::Job& shown = job.record.job();
  *at = {.number = number,
         .started_ms = shown.started_ms() != 0 ? shown.started_ms() : shown.submitted_ms(),
         .limit_ms = job.spec().duration_s() * 1000,
         .predicted_ms = predictor_.predict(shown.owner(), job.spec().project(), job.spec().duration_s() * 1000),
         .project = job.spec().project(),
         .held = job.held,
         .priority = parse_job_priority(job.spec().priority()).value_or(JobPriority::kNormal)};
}

void JobCore::drop_running(int64_t number) {
  std::erase_if(cluster_.view.running,
                [&](const RunningJob& job) { return static_cast<int64_t>(job.number) == number; });
}

void JobCore::record_run(const Job& job, int64_t run_ms) {
  predictor_.record(job.record.job().owner(), job.spec().project(), run_ms, job.spec().duration_s() * 1000);
  predictions_stale_ = true;
}

void JobCore::enqueue(Job& job) { queue_.push_back(queued(job)); }

void JobCore::dequeue(int64_t number) {
  std::erase_if(queue_, [&](const QueuedJob& job) { return static_cast<int64_t>(job.number) == number; });
}

// The queue with predictions from all jobs that have ended.
const std::vector<QueuedJob>& JobCore::refreshed_queue() const {
  if (std::exchange(predictions_stale_, false)) {
    for (QueuedJob& job : queue_) job.predicted_ms = predictor_.predict(job.owner, job.project, job.limit_ms);
  }
  return queue_;
}

const std::map<int64_t, StartForecast>& JobCore::forecasts(int64_t now_ms) const {
  // A long queue takes a while: about 1 s for 10,000 jobs.
  const int64_t valid_ms = kForecastMs + static_cast<int64_t>(queue_.size());
  const bool is_fresh = now_ms - forecast_at_ms_ < valid_ms && now_ms >= forecast_at_ms_;
  if (is_fresh && (open_.size() > kForecastAlways || now_ms == forecast_at_ms_)) return forecasts_;
  forecast_at_ms_ = now_ms;
  forecasts_.clear();
  if (!seen_cluster_) return forecasts_;
  for (const StartForecast& one : forecast(cluster_.view, refreshed_queue(), now_ms, options_).jobs)
    forecasts_[static_cast<int64_t>(one.number)] = one;
  return forecasts_;
}

void JobCore::plan(int64_t now_ms) {
  if (!seen_cluster_) {
    actions_.look = true;
    return;
  }
  if (queue_.empty()) return;
  Plan made = jobs::plan(cluster_.view, refreshed_queue(), now_ms, options_);
  waits_ = std::move(made.waits);
  wait_index_.clear();
  for (const BlockedJob& blocked : made.blocked) {
    int64_t& promised = jobs_.at(static_cast<int64_t>(blocked.number)).promised_ms;
    if (promised == 0) promised = blocked.likely_ms;
    const auto at = std::ranges::find(queue_, blocked.number, &QueuedJob::number);
    if (at != queue_.end()) at->promised_ms = promised;
  }
  for (const auto& [number, placement] : made.start) begin(jobs_.at(static_cast<int64_t>(number)), placement.nodes);
  for (const BlockedJob& blocked : made.blocked) hand_over(jobs_.at(static_cast<int64_t>(blocked.number)), now_ms);
}

// Requests the blocked job from the head's scheduler if only actors and trials are in its way: there it waits its turn
// among them, while here it would wait until they leave room by chance.
void JobCore::hand_over(Job& job, int64_t now_ms) {
  const int64_t number = job.record.number();
  if (number == not_handed_over_ && now_ms - not_handed_over_at_ms_ < kHandOverAgainMs) return;
  not_handed_over_ = number;
  not_handed_over_at_ms_ = now_ms;
  ClusterView view = cluster_.view;
  bool others = false;  // Whether actors and trials use anything.
  std::vector<ResourceSet> taken(view.nodes.size());
  for (const RunningJob& running : view.running) {
    for (const auto& [name, held] : running.held) {
      if (const auto at = node_index_.find(name); at != node_index_.end()) taken[at->second] += held;
    }
  }
  for (size_t i = 0; i < view.nodes.size(); ++i) {
    PlanNode& node = view.nodes[i];
    for (const auto& [of, total] : node.total.entries()) {
      const Amount left = std::max<Amount>(0, total - taken[i].get(of));
      others |= node.free.get(of) < left;
      node.free.set(of, left);
    }
  }
  if (!others) return;
  const std::vector<QueuedJob> alone{queued(job)};
  const Plan made = jobs::plan(view, alone, now_ms, options_);
  if (made.start.empty()) return;
  const Reason waits = reason("job.wait_other", wait_reason(job));
  not_handed_over_ = 0;
  begin(job, made.start.front().second.nodes);
  job.waits = waits;
}

// ---- starting ----

void JobCore::begin(Job& job, const std::vector<std::string>& nodes) {
  Record& record = job.record;
  dequeue(record.number());
  active_.insert(record.number());
  record.set_phase(Record::PLACING);
  record.clear_outcome();
  record.clear_group_id();
  record.clear_actor_ids();
  auto& earlier = *record.mutable_job()->mutable_earlier();
  const int attempt = record.job().ranks().empty() ? 1 : record.job().ranks(0).attempt() + 1;
  for (const v1::JobRank& rank : record.job().ranks()) *earlier.Add() = rank;
  if (earlier.size() > kEarlierMax) earlier.DeleteSubrange(0, earlier.size() - kEarlierMax);
  record.mutable_job()->clear_ranks();
  record.mutable_job()->clear_reason();
  record.mutable_job()->clear_why();
  record.mutable_job()->set_started_ms(0);
  record.mutable_job()->set_exit_code(0);
  job.in_view = false;
  job.failed.reset();
  job.failed_rank = -1;
  job.waits = {};
  job.held.clear();
  const auto resources = resources_of(job.spec()).value_or(ResourceSet());
  for (const std::string& node : nodes) {
    job.held.emplace_back(node, resources);
    v1::JobRank& rank = *record.mutable_job()->add_ranks();
    rank.set_rank(record.job().ranks_size() - 1);
    rank.set_node(node);
    rank.set_state("pending");
    rank.set_attempt(attempt);
  }
  take_room(job);
  update_running(job);
  if (job.spec().nodes() > 1) {
    const auto group = new_id<GroupId>(random_);
    record.set_group_id(raw(group));
    by_group_[record.group_id()] = record.number();
  } else {
    spawn_ranks(job, nodes);
  }
  send_requests(job);
  keep(job);
}

// Gives the ranks their actors, on these nodes.
void JobCore::spawn_ranks(Job& job, const std::vector<std::string>& nodes) {
  Record& record = job.record;
  job.ranks.clear();
  record.clear_actor_ids();
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto actor = new_id<ActorId>(random_);
    job.ranks.push_back({.actor = actor});
    by_actor_[actor] = record.number();
    record.add_actor_ids(raw(actor));
    v1::JobRank& rank = *record.mutable_job()->mutable_ranks(static_cast<int>(i));
    rank.set_node(nodes[i]);
    rank.set_actor(to_string(actor));
  }
}

protocol::ActorSpec JobCore::actor_spec(const Job& job, int rank, const std::vector<std::string>& nodes) const {
  const v1::JobSpec& spec = job.spec();
  LaunchRequest launch{.mode = parse_launch_mode(spec.mode()).value_or(LaunchMode::kSingle),
                       .command = {spec.command().begin(), spec.command().end()},
                       .slots = std::max(1, static_cast<int>(spec.gpus())),
                       .rank = rank,
                       .hosts = {},
                       .parameter_servers = spec.parameter_servers(),
                       .master_port = kPortFirst + static_cast<int>(job.record.number() % kPorts),
                       .file_root = std::string(kJobDirectory)};
  for (const std::string& node : nodes) {
    const auto address = cluster_.addresses.find(node);
    launch.hosts.push_back(address == cluster_.addresses.end() || address->second.empty() ? node : address->second);
  }
  CommandStart start;
  start.job = job.record.job().id();
  start.rank = rank;
  start.setup = spec.setup();
  start.directory = spec.directory();
  start.isolated = spec.isolated();
  start.mounts.assign(spec.mounts().begin(), spec.mounts().end());
  start.shm_bytes = spec.shm_bytes();
  if (auto made = make_launch(launch)) {
    start.command = std::move(made->command);
    start.env = std::move(made->env);
    start.files = std::move(made->files);
  }
  for (const auto& [name, value] : spec.env()) start.env[name] = value;

  const ActorId actor = job.ranks[static_cast<size_t>(rank)].actor;
  protocol::ActorSpec out;
  out.set_actor_id(raw(actor));
  out.set_class_name(command_class());
  out.set_arguments(command_arguments(start));
  *out.mutable_resources() = to_message(resources_of(spec).value_or(ResourceSet()));
  out.set_detached(true);
  out.set_display(nodes.size() > 1 ? fmt::format("{} rank {}", start.job, rank) : start.job);
  out.set_start_timeout_ms(kStartTimeoutMs);
  out.set_wait_if_infeasible(true);  // The queue refuses what can never run; a node may come back.
  if (!spec.files_sha256().empty()) {
    std::string hash;
    for (size_t i = 0; i + 1 < spec.files_sha256().size(); i += 2)
      hash += static_cast<char>(std::stoi(spec.files_sha256().substr(i, 2), nullptr, 16));
    out.set_files_sha256(hash);
    out.set_files_bytes(job.record.files_bytes());
  }
  if (!job.record.group_id().empty()) {
    out.set_group_id(job.record.group_id());
    out.set_bundle(rank);
    return out;
  }
  out.set_bundle(-1);
  if (spec.node_names_size() > 0) out.mutable_wishes()->set_node(nodes.front());
  if (!spec.labels().empty()) require_labels(spec, *out.mutable_wishes()->mutable_labels());
  return out;
}

// Sends what is needed to go on with the job; repeated requests have no second effect.
void JobCore::send_requests(Job& job) {
  Record& record = job.record;
  std::vector<std::string> nodes;
  for (const v1::JobRank& rank : record.job().ranks()) nodes.push_back(rank.node());
  if (record.phase() == Record::PLACING && !record.group_id().empty() && job.ranks.empty()) {
    protocol::ClientMessage create;
    create.mutable_create_group()->set_request_id(record.group_id());
    protocol::GroupSpec& spec = *create.mutable_create_group()->mutable_spec();
    spec.set_group_id(record.group_id());
    spec.set_strategy(protocol::STRICT_SPREAD);
    spec.set_detached(true);
    spec.set_wait_if_infeasible(true);
    const auto resources = resources_of(job.spec()).value_or(ResourceSet());
    for (int i = 0; i < job.spec().nodes(); ++i) *spec.add_bundles() = to_message(resources);
    require_labels(job.spec(), *spec.mutable_labels());
    actions_.messages.push_back(std::move(create));
    protocol::ClientMessage ready;
    ready.mutable_find_group()->set_request_id(record.group_id());
    ready.mutable_find_group()->set_group_id(record.group_id());
    ready.mutable_find_group()->set_when_ready(true);
    actions_.messages.push_back(std::move(ready));
    return;
  }
  for (size_t i = 0; i < job.ranks.size(); ++i) {
    protocol::ClientMessage message;
    if (record.phase() == Record::PLACING) {
      message.mutable_spawn()->set_request_id(raw(job.ranks[i].actor));
      *message.mutable_spawn()->mutable_spec() = actor_spec(job, static_cast<int>(i), nodes);
    } else {
      message.mutable_watch()->set_actor_id(raw(job.ranks[i].actor));
    }
    actions_.messages.push_back(std::move(message));
  }
  if (record.phase() == Record::ENDING) end_ranks(job, record.outcome(), false);
}

// ---- events ----

void JobCore::on_connected(int64_t) {
  for (const std::string& group : leaving_groups_) send_removal(group);
  for (const int64_t number : active_) {
    Job& job = jobs_.at(number);
    if (job.record.phase() != Record::QUEUED) send_requests(job);
  }
  actions_.look = true;
}

void JobCore::on_message(const protocol::HeadMessage& message, int64_t now_ms) {
  if (message.has_actor()) on_actor(message.actor(), now_ms);
  if (message.has_reply()) {
    if (message.reply().has_actor()) on_actor(message.reply().actor(), now_ms);
    on_reply(message.reply(), now_ms);
  }
}

void JobCore::on_actor(const protocol::ActorInfo& info, int64_t now_ms) {
  const auto found = by_actor_.find(id_from_raw<ActorId>(info.actor_id()));
  if (found == by_actor_.end()) return;
  Job& job = jobs_.at(found->second);
  const auto at = std::ranges::find(job.ranks, found->first, &Rank::actor);
  if (at == job.ranks.end() || at->state == protocol::DEAD || info.version() < at->version) return;
  at->version = info.version();
  at->state = info.state();
  const auto index = static_cast<size_t>(at - job.ranks.begin());
  v1::JobRank& shown = *job.record.mutable_job()->mutable_ranks(static_cast<int>(index));
  shown.set_state(std::string(state_name(info.state())));
  if (!info.node_name().empty() && info.node_name() != shown.node()) {
    shown.set_node(info.node_name());
    if (index < job.held.size()) job.held[index].first = info.node_name();
    update_running(job);
  }
  shown.set_reason(info.reason());
  shown.set_why(info.why());
  if (info.state() == protocol::DEAD) {
    at->cause = info.cause();
    // A killed actor is dead at once, its process ends within the graceful time.
    at->gone = info.cause().kind() != Cause::KILLED;
    const bool was_asked = job.record.phase() == Record::ENDING && info.cause().kind() == Cause::KILLED;
    if (!was_asked) shown.set_exit_code(exit_code_of(info.cause()));
    set_reason(shown, info.cause().kind() == Cause::EXITED ? reason("job.exit_code", info.cause().exit_code())
                      : was_asked                          ? reason("job.ended_with_it")
                                                           : reason_in(info.cause()));
    actions_.look = true;
  }
  settle(job, now_ms);
}

void JobCore::send_removal(const std::string& group) {
  protocol::ClientMessage message;
  message.mutable_remove_group()->set_request_id(group);
  message.mutable_remove_group()->set_group_id(group);
  actions_.messages.push_back(std::move(message));
}

void JobCore::on_reply(const protocol::Reply& reply, int64_t now_ms) {
  if (leaving_groups_.contains(reply.request_id())) {
    // The reply may be to its creation; a group that the head does not have any more is an error.
    const bool is_over = (reply.has_error() && reply.error().code() != 0) ||
                         reply.group().state() == protocol::GROUP_REMOVED || !reply.has_group();
    if (!is_over) return;
    actions_.rows.push_back({std::string(kLeavingGroupsTable), reply.request_id(), std::nullopt});
    leaving_groups_.erase(reply.request_id());
    return;
  }
  if (const auto group = by_group_.find(reply.request_id()); group != by_group_.end()) {
    Job& job = jobs_.at(group->second);
    if (job.record.phase() != Record::PLACING || !job.ranks.empty()) return;
    if (reply.has_error() && error_code_from(int64_t{reply.error().code()}) == ErrorCode::kUnavailable) {
      job.ask_again = true;  // A limit of the head; see on_tick().
    } else if (reply.has_error() && reply.error().code() != 0) {
      job.failed = Cause();
      job.failed->set_kind(Cause::START_FAILED);
      job.failed->set_message(reply.error().message());
      job.failed->set_why(reply.error().why());
      set_reason(*job.record.mutable_job(), reason_of_failure(job));
      job.record.mutable_job()->set_exit_code(exit_code_of(*job.failed));
      end_ranks(job, "failed", true);
      settle(job, now_ms);
    } else if (reply.group().state() == protocol::GROUP_READY) {
      std::vector<std::string> nodes;
      for (const protocol::BundleInfo& bundle : reply.group().bundles()) nodes.push_back(bundle.node_name());
      for (size_t i = 0; i < nodes.size() && i < job.held.size(); ++i) job.held[i].first = nodes[i];
      update_running(job);
      spawn_ranks(job, nodes);
      send_requests(job);
      keep(job);
    }
    return;
  }
  if (!reply.has_error() || reply.error().code() == 0) return;
  const auto actor = by_actor_.find(id_from_raw<ActorId>(reply.request_id()));
  if (actor == by_actor_.end()) return;
  Job& job = jobs_.at(actor->second);
  const auto at = std::ranges::find(job.ranks, actor->first, &Rank::actor);
  if (at == job.ranks.end() || at->state != protocol::ACTOR_STATE_UNSPECIFIED) return;
  at->state = protocol::DEAD;
  at->gone = true;
  at->cause.set_kind(Cause::START_FAILED);
  at->cause.set_message(reply.error().message());
  at->cause.set_why(reply.error().why());
  v1::JobRank& shown = *job.record.mutable_job()->mutable_ranks(static_cast<int>(at - job.ranks.begin()));
  shown.set_state("ended");
  shown.set_exit_code(exit_code_of(at->cause));
  set_reason(shown, reason_in(at->cause));
  settle(job, now_ms);
}

// Queues jobs again that were sent to a node by its name and wait for it, if it takes no jobs any more: they may have
// named others.
void JobCore::leave_closed_nodes(int64_t now_ms) {
  for (const int64_t number : std::vector<int64_t>(active_.begin(), active_.end())) {
    Job& job = jobs_.at(number);
    if (job.record.phase() != Record::PLACING || job.spec().node_names_size() < 2 || job.ranks.size() != 1) continue;
    const Rank& rank = job.ranks.front();
    if (rank.state != protocol::PENDING) continue;
    const auto node = std::ranges::find(cluster_.view.nodes, job.held.front().first, &PlanNode::name);
    if (node != cluster_.view.nodes.end() && node->takes_jobs) continue;
    end_ranks(job, "queued", true);
    settle(job, now_ms);
  }
}

void JobCore::on_cluster(ClusterState state, int64_t now_ms) {
  state.view.running = std::move(cluster_.view.running);
  cluster_ = std::move(state);
  seen_cluster_ = true;
  node_index_.clear();
  for (size_t i = 0; i < cluster_.view.nodes.size(); ++i) node_index_[cluster_.view.nodes[i].name] = i;
  // The head reads its tables and sends the states of actors in one order: what is known as placed here is in the view.
  for (const int64_t number : active_) {
    Job& job = jobs_.at(number);
    job.in_view = !job.ranks.empty() && std::ranges::all_of(job.ranks, [](const Rank& rank) {
      return rank.state != protocol::ACTOR_STATE_UNSPECIFIED && rank.state != protocol::PENDING;
    });
    if (!job.in_view) take_room(job);
  }
  for (const ActorId actor : cluster_.gone) {
    const auto found = by_actor_.find(actor);
    if (found == by_actor_.end()) continue;
    Job& job = jobs_.at(found->second);
    const auto at = std::ranges::find(job.ranks, actor, &Rank::actor);
    if (at == job.ranks.end() || at->gone) continue;
    at->gone = true;
    settle(job, now_ms);
  }
  leave_closed_nodes(now_ms);
  plan(now_ms);
}

void JobCore::on_tick(int64_t now_ms) {
  for (const int64_t number : active_) {
    if (Job& job = jobs_.at(number); std::exchange(job.ask_again, false)) send_requests(job);
  }
  for (const int64_t number : std::vector<int64_t>(active_.begin(), active_.end())) {
    Job& job = jobs_.at(number);
    const int64_t limit_ms = job.spec().duration_s() * 1000;
    if (job.record.phase() != Record::RUNNING || limit_ms == 0) continue;
    if (now_ms < job.record.job().started_ms() + limit_ms) continue;
    set_reason(*job.record.mutable_job(), reason("job.expired", format_duration(std::chrono::milliseconds(limit_ms))));
    end_ranks(job, "expired", false);
    settle(job, now_ms);
  }
  const bool any_ends = std::ranges::any_of(
      active_, [this](int64_t number) { return jobs_.at(number).record.phase() == Record::ENDING; });
  if (any_ends || !queue_.empty()) actions_.look = true;
}

std::optional<int64_t> JobCore::deadline_ms() const {
  std::optional<int64_t> first;
  for (const int64_t number : active_) {
    const Job& job = jobs_.at(number);
    if (job.record.phase() != Record::RUNNING || job.spec().duration_s() == 0) continue;
    const int64_t end = job.record.job().started_ms() + job.spec().duration_s() * 1000;
    if (!first || end < *first) first = end;
  }
  return first;
}

std::vector<ActorId> JobCore::ending() const {
  std::vector<ActorId> out;
  for (const int64_t number : active_) {
    const Job& job = jobs_.at(number);
    for (const Rank& rank : job.ranks) {
      if (rank.state == protocol::DEAD && !rank.gone) out.push_back(rank.actor);
    }
  }
  return out;
}

bool JobCore::needs_files(const std::string& sha256) const {
  return std::ranges::any_of(open_, [&](int64_t number) { return jobs_.at(number).spec().files_sha256() == sha256; });
}

// ---- ends ----

// Decides from the states of the ranks how the job goes on.
void JobCore::settle(Job& job, int64_t now_ms) {
  Record& record = job.record;
  if (record.phase() == Record::PLACING || record.phase() == Record::RUNNING) {
    if (job.ranks.empty()) return;
    for (size_t i = 0; i < job.ranks.size() && !job.failed; ++i) {
      const Rank& rank = job.ranks[i];
      if (rank.state != protocol::DEAD || succeeded(rank.cause)) continue;
      job.failed = rank.cause;
      job.failed_rank = static_cast<int>(i);
    }
    const bool all_dead = std::ranges::all_of(job.ranks, [](const Rank& rank) { return rank.state == protocol::DEAD; });
    const bool led = leads(job.spec()) && job.ranks.front().state == protocol::DEAD;
    const bool all_up = std::ranges::all_of(
        job.ranks, [](const Rank& rank) { return rank.state == protocol::ALIVE || rank.state == protocol::DEAD; });
    if (record.phase() == Record::PLACING && all_up) {
      record.set_phase(Record::RUNNING);
      record.mutable_job()->set_state("running");
      record.mutable_job()->set_started_ms(now_ms);
      update_running(job);
      event("job runs", {{"job", record.job().id()}, {"name", job.spec().name()}});
      keep(job);
    }
    if (job.failed) {
      std::string outcome = "failed";
      if (job.failed->kind() == Cause::KILLED) {
        outcome = "stopped";
      } else if (lost_with_node(*job.failed) && record.losses() < limits_.losses) {
        record.set_losses(record.losses() + 1);
        outcome = "queued";
      } else if (!lost_with_node(*job.failed) && record.job().restarts() < job.spec().max_restarts()) {
        record.mutable_job()->set_restarts(record.job().restarts() + 1);
        outcome = "queued";
      }
      set_reason(*record.mutable_job(), reason_of_failure(job));
      record.mutable_job()->set_exit_code(exit_code_of(*job.failed));
      end_ranks(job, outcome, false);
    } else if (all_dead || led) {
      record.mutable_job()->clear_reason();
      record.mutable_job()->clear_why();
      end_ranks(job, "succeeded", led);
    }
  }
  if (record.phase() == Record::ENDING &&
      std::ranges::all_of(job.ranks, [](const Rank& rank) { return rank.state == protocol::DEAD && rank.gone; }))
    finish(job, now_ms);
}

Reason JobCore::reason_of_failure(const Job& job) const {
  const Cause& cause = *job.failed;
  const std::string node = cause.node_name();
  Reason what;
  switch (cause.kind()) {
    case Cause::EXITED:
      what = reason("job.exit_code", cause.exit_code());
      break;
    case Cause::SIGNALED:
      what = reason("job.signal", cause.signal());
      break;
    default:
      what = reason_in(cause);
  }
  if (job.failed_rank < 0 || job.ranks.size() < 2) return node.empty() ? what : reason("job.on_node", node, what);
  return reason("job.rank_on_node", job.failed_rank, node, what);
}

void JobCore::end_ranks(Job& job, const std::string& outcome, bool now) {
  Record& record = job.record;
  record.set_phase(Record::ENDING);
  record.set_outcome(outcome);
  if (outcome == "stopped" || outcome == "expired") record.mutable_job()->set_stopping(true);
  for (const Rank& rank : job.ranks) {
    if (rank.state == protocol::DEAD && !(now && !rank.gone)) continue;
    protocol::ClientMessage message;
    protocol::KillActor& kill = *message.mutable_kill();
    kill.set_request_id(raw(new_id<RequestId>(random_)));
    kill.set_actor_id(raw(rank.actor));
    kill.set_no_restart(true);
    kill.set_grace_ms(now ? 0 : job.spec().graceful_s() * 1000);
    actions_.messages.push_back(std::move(message));
  }
  keep(job);
  actions_.look = true;
}

void JobCore::forget_ranks(Job& job) {
  for (const Rank& rank : job.ranks) {
    protocol::ClientMessage message;
    message.mutable_watch()->set_actor_id(raw(rank.actor));
    message.mutable_watch()->set_unwatch(true);
    actions_.messages.push_back(std::move(message));
    by_actor_.erase(rank.actor);
  }
  if (!job.record.group_id().empty()) {
    const std::string group = job.record.group_id();
    send_removal(group);
    leaving_groups_.insert(group);
    actions_.rows.push_back({std::string(kLeavingGroupsTable), group, ""});
    by_group_.erase(group);
  }
  job.record.clear_group_id();
  job.record.clear_actor_ids();
  job.ranks.clear();
  job.held.clear();
  drop_running(job.record.number());
}

void JobCore::finish(Job& job, int64_t now_ms) {
  Record& record = job.record;
  const std::string outcome = record.outcome();
  if (outcome != "queued") return set_end(job, outcome, {}, now_ms);
  const Reason why = reason_of(record.job());
  forget_ranks(job);
  active_.erase(record.number());
  enqueue(job);
  record.set_phase(Record::QUEUED);
  record.clear_outcome();
  record.mutable_job()->set_state("queued");
  event("job is queued again",
        {{"job", record.job().id()}, {"restart", std::to_string(record.job().restarts())}, {"why", why.text()}});
  keep(job);
  actions_.look = true;
}

void JobCore::set_end(Job& job, const std::string& state, const Reason& why, int64_t now_ms) {
  Record& record = job.record;
  v1::Job& shown = *record.mutable_job();
  if (shown.started_ms() == 0 && state != "stopped") shown.set_started_ms(now_ms);
  forget_ranks(job);
  record.set_phase(Record::ENDED);
  record.clear_outcome();
  shown.set_state(state);
  shown.set_stopping(false);
  shown.set_ended_ms(now_ms);
  if (state == "succeeded") {
    shown.set_exit_code(0);
    record_run(job, now_ms - shown.started_ms());
  }
  if (!why.empty()) set_reason(shown, why);
  open_.erase(record.number());
  active_.erase(record.number());
  dequeue(record.number());
  ended_.push_back(record.number());
  event("job ended", {{"job", shown.id()}, {"name", job.spec().name()}, {"state", state}, {"why", shown.reason()}});
  keep(job);
  actions_.look = true;
  drop_oldest();
}

// Why a queued job waits, by the last plan; empty: it was not planned yet.
Reason JobCore::wait_reason(const Job& job) const {
  if (wait_index_.empty()) {
    for (size_t i = 0; i < waits_.size(); ++i) wait_index_[waits_[i].number] = i;
  }
  const auto at = wait_index_.find(static_cast<JobNumber>(job.record.number()));
  return at == wait_index_.end() ? Reason() : reason_of_wait(waits_[at->second]);
}

v1::Job JobCore::row(const Job& job, int64_t now_ms) const {
  v1::Job out = job.record.job();
  const bool placing = job.record.phase() == Record::PLACING;
  if (placing && !job.waits.empty()) set_reason(out, job.waits);
  if (job.record.phase() == Record::QUEUED) {
    if (const Reason why = wait_reason(job); !why.empty()) set_reason(out, why);
  }
  if (job.record.phase() == Record::QUEUED) {
    const auto mine = parse_job_priority(job.spec().priority()).value_or(JobPriority::kNormal);
    const int64_t ahead = std::ranges::count_if(queue_, [&](const QueuedJob& other) {
      return other.priority > mine ||
             (other.priority == mine && static_cast<int64_t>(other.number) < job.record.number());
    });
    out.set_position(ahead + 1);
    const auto& all = forecasts(now_ms);
    if (const auto found = all.find(job.record.number()); found != all.end()) {
      fill(found->second, *out.mutable_start());
      // It waits: a time that has come means that a running job takes longer than foreseen.
      if (out.start().likely_ms() != 0) out.mutable_start()->set_likely_ms(std::max(out.start().likely_ms(), now_ms));
    }
  }
  return out;
}

JobActions JobCore::take() { return std::exchange(actions_, {}); }

void JobCore::check_invariants() const {
  for (const auto& [number, job] : jobs_) {
    VOLADOR_CHECK((job.record.phase() != Record::ENDED) == open_.contains(number), id_of(number));
    VOLADOR_CHECK(job.record.number() == number, id_of(number));
    if (job.record.phase() == Record::QUEUED || job.record.phase() == Record::ENDED)
      VOLADOR_CHECK(job.ranks.empty(), id_of(number));
    for (const Rank& rank : job.ranks) VOLADOR_CHECK(by_actor_.at(rank.actor) == number, id_of(number));
  }
  for (const QueuedJob& each : queue_) {
    const auto number = static_cast<int64_t>(each.number);
    VOLADOR_CHECK(jobs_.at(number).record.phase() == Record::QUEUED && !active_.contains(number), id_of(number));
  }
  VOLADOR_CHECK(queue_.size() + active_.size() == open_.size(), std::to_string(open_.size()));
  for (const int64_t number : open_) VOLADOR_CHECK(jobs_.contains(number), id_of(number));
  VOLADOR_CHECK(ended_.size() + open_.size() == jobs_.size(), std::to_string(jobs_.size()));
}

}  // namespace volador::jobs
