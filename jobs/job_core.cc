#include "jobs/job_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "jobs/job_spec.h"
#include "jobs/notify/notice_settings.h"
#include "jobs/queue_settings.h"
#include "runtime/number_key.h"
#include "runtime/quantities.h"

namespace volador::jobs {
namespace {

using Record = protocol::JobRecord;

constexpr int kListDefault = 1000;
constexpr size_t kPlanAtOnce = 200;  // Jobs in the queue up to which each submission is planned by itself.

Result<void> check_priority(const std::string& text, const Requester& by) {
  const auto priority = parse_job_priority(text);
  if (!priority) return make_error(priority.error());
  if (*priority != JobPriority::kVeryUrgent || by.operates) return {};
  return make_error(ErrorCode::kPermissionDenied,
                    "priority: very_urgent is for operators; this token may use normal and urgent");
}

void hide_secrets(v1::Job& job) {
  for (auto& [name, value] : *job.mutable_spec()->mutable_secrets()) value = kHiddenSecret;
}

void fill(const StartForecast& forecast, v1::JobStart& out) {
  out.set_never(forecast.never);
  out.set_likely_ms(forecast.likely_ms);
  out.set_latest_ms(forecast.latest_ms);
  out.set_ahead(forecast.ahead);
}

// `may`: what only the owner and operators may do.
tl::unexpected<Error> refused_access(const v1::Job& job, const Requester& by, std::string_view what,
                                     std::string_view may) {
  return make_error(
      ErrorCode::kPermissionDenied,
      fmt::format("{} {}: it was submitted by {}, this request comes with {}; only its owner and operators may {}",
                  what, job.id(), job.user().empty() ? "token " + job.owner() : "user " + job.user(),
                  by.user.empty() ? "token " + by.token_id : "a token of user " + by.user, may));
}

}  // namespace

std::string job_id(int64_t number) { return fmt::format("job-{}", number); }

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
  if (table == kJobsHeadTable && key == "settings") {
    if (!settings_.ParseFromArray(value.data(), static_cast<int>(value.size()))) return false;
    planner_.set_options(planner_options(settings_));
    actions_.settings = settings_;
    return true;
  }
  if (table == kUsageTable) return usage_.load(value);
  if (table == kNoticesTable) return load_notice(value);
  if (table == kLeavingGroupsTable) {
    leaving_groups_.emplace(key);
    return true;
  }
  if (table != kJobsTable) return false;
  Job job;
  if (!job.record.ParseFromArray(value.data(), static_cast<int>(value.size())) || job.record.number() <= 0)
    return false;
  // Jobs of earlier versions lack these fields.
  v1::JobSpec& spec = *job.record.mutable_job()->mutable_spec();
  if (spec.pool().empty()) spec.set_pool(std::string(kDefaultPool));
  if (spec.stop_signal().empty()) spec.set_stop_signal("TERM");
  const int64_t number = job.record.number();
  if (!spec.trial().empty()) by_trial_[spec.trial()] = number;
  jobs_[number] = std::move(job);
  last_ = std::max(last_, number);
  return true;
}

void JobCore::start(int64_t now_ms) {
  std::vector<std::pair<int64_t, int64_t>> ends;
  for (auto& [number, job] : jobs_) {
    tell_actors(job);
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
    activate(job);
    job.begun_ms = now_ms;
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
}

void JobCore::use_program(const std::string& sha256) {
  if (!driver_.is_nil() && program_ == sha256) return;
  driver_ = new_id<DriverId>(random_);
  program_ = sha256;
  actions_.rows.push_back({std::string(kJobsHeadTable), "driver", raw(driver_)});
  actions_.rows.push_back({std::string(kJobsHeadTable), "program", program_});
}

void JobCore::event(std::string text, Fields fields, Reason why) {
  actions_.events.push_back({.text = std::move(text), .fields = std::move(fields), .why = std::move(why)});
}

void JobCore::event_of(const Job& job, std::string text, Fields fields, Fields details) {
  if (seen_by_all(job.record.job(), settings_)) std::ranges::move(details, std::back_inserter(fields));
  event(std::move(text), std::move(fields));
}

void JobCore::keep(Job& job) {
  actions_.rows.push_back({std::string(kJobsTable), number_key(job.record.number()), job.record.SerializeAsString()});
  if (!job.spec().trial().empty()) changed_trials_.insert(job.record.number());
}

void JobCore::drop_oldest() {
  while (ended_.size() > limits_.ended) {
    forget(ended_.front());
    ended_.pop_front();
  }
}

// Removes an ended job. Its number is not used again.
void JobCore::forget(int64_t number) {
  actions_.rows.push_back({std::string(kJobsTable), number_key(number), std::nullopt});
  if (number == last_) actions_.rows.push_back({std::string(kJobsHeadTable), "last", std::to_string(last_)});
  actions_.actors.push_back({.number = number, .access = {}, .actors = {}});
  const auto found = jobs_.find(number);
  if (found == jobs_.end()) return;
  by_trial_.erase(found->second.spec().trial());
  changed_trials_.erase(number);
  jobs_.erase(found);
}

void JobCore::tell_actors(const Job& job) {
  const v1::Job& shown = job.record.job();
  JobActors told{.number = job.record.number(), .access = access_part(shown), .actors = {}};
  for (const auto* ranks : {&shown.earlier(), &shown.ranks()}) {
    for (const v1::JobRank& rank : *ranks) {
      if (const auto actor = parse_id<ActorId>(rank.actor())) told.actors.push_back(*actor);
    }
  }
  if (!told.actors.empty()) actions_.actors.push_back(std::move(told));
}

// ---- requests ----

// Jobs that the requester may not see do not exist for it.
const JobCore::Job* JobCore::find(const std::string& name, const Requester& by, Error* why) const {
  const auto shows = [&](const Job& job) { return access_to(job.record.job(), settings_, by) != JobAccess::kNone; };
  std::string_view digits = name;
  if (digits.starts_with("job-")) digits.remove_prefix(4);
  int64_t number = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (failed == std::errc() && end == digits.data() + digits.size()) {
    if (const auto found = jobs_.find(number); found != jobs_.end() && shows(found->second)) return &found->second;
  }
  std::vector<const Job*> named;
  for (const auto& [each, job] : jobs_) {
    if (job.spec().name() == name && shows(job)) named.push_back(&job);
  }
  if (named.size() == 1) return named.front();
  if (named.empty()) {
    *why = {ErrorCode::kNotFound,
            fmt::format("there is no job \"{}\"; `volador job list` shows the jobs (the oldest ended ones are dropped)",
                        name)};
  } else {
    *why = {ErrorCode::kNotFound,
            fmt::format("\"{}\" is the name of {} jobs, from {} to {}; use an id", name, named.size(),
                        job_id(named.front()->record.number()), job_id(named.back()->record.number()))};
  }
  return nullptr;
}

Result<JobCore::Job*> JobCore::change(const std::string& name, const Requester& by, std::string_view what) {
  Error why;
  Job* job = const_cast<Job*>(find(name, by, &why));
  if (job == nullptr) return make_error(why);
  const v1::Job& shown = job->record.job();
  if (access_to(shown, settings_, by) == JobAccess::kWrite) return job;
  return refused_access(shown, by, what,
                        "change it, and others of its project if it was submitted with --access=write");
}

// The job's name, for events and for the reasons of other jobs, which everyone sees; its id if not all may see the job.
std::string JobCore::public_name(const Job& job) const {
  const v1::Job& shown = job.record.job();
  return seen_by_all(shown, settings_) ? shown.spec().name() : shown.id();
}

// Nodes that the log policies of a trial's earlier runs exclude; `trial`: JobSpec.trial of the next one.
google::protobuf::RepeatedPtrField<std::string> JobCore::nodes_to_avoid(const std::string& trial) const {
  const size_t dot = trial.find('.');
  if (dot == std::string::npos) return {};
  // The newest one that was submitted has those of all earlier ones.
  for (int run = std::atoi(trial.c_str() + dot + 1) - 1; run > 0; --run) {
    const auto found = by_trial_.find(fmt::format("{}.{}", trial.substr(0, dot), run));
    if (found != by_trial_.end()) return jobs_.at(found->second).record.job().avoids();
  }
  return {};
}

Result<v1::SubmitJobReply> JobCore::submit(const v1::SubmitJobRequest& request, const Requester& by,
                                           int64_t files_bytes, int64_t now_ms) {
  if (const auto same = by_trial_.find(request.spec().trial()); same != by_trial_.end()) {
    v1::SubmitJobReply reply;
    *reply.mutable_job() = row(jobs_.at(same->second), now_ms);
    return reply;
  }
  auto spec = checked_spec(request.spec());
  if (!spec) return make_error(spec.error());
  if (auto allowed = check_priority(spec->priority(), by); !allowed) return make_error(allowed.error());
  VOLADOR_TRY(check_member(settings_, spec->project(), by));
  VOLADOR_TRY(check_maxima(settings_, *spec));
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
  if (shown.spec().name().empty()) shown.mutable_spec()->set_name(job_id(number));
  shown.set_state("queued");
  shown.set_submitted_ms(now_ms);
  shown.set_owner(by.token_id);
  shown.set_user(by.user);
  job.record.set_number(number);
  job.record.set_phase(Record::QUEUED);
  job.record.set_files_bytes(files_bytes);
  VOLADOR_TRY(check_admission(job));
  *shown.mutable_avoids() = nodes_to_avoid(shown.spec().trial());
  v1::SubmitJobReply reply;
  if (request.dry_run()) {
    const StartForecast start = planner().forecast_of_new(queued(job), now_ms);
    fill(start, *shown.mutable_start());
    shown.mutable_start()->set_now(!start.never && start.likely_ms != 0 && start.likely_ms <= now_ms);
    *reply.mutable_job() = shown;
    hide_secrets(*reply.mutable_job());
    return reply;
  }
  shown.set_id(job_id(number));
  last_ = number;
  open_.insert(number);
  if (!shown.spec().trial().empty()) by_trial_[shown.spec().trial()] = number;
  Job& stored = jobs_[number] = std::move(job);
  enqueue(stored);
  keep(stored);
  event("job submitted", {{"job", job_id(number)}, {"name", public_name(stored)}});
  if (const Job* first = started_alternative(stored); first != nullptr) {
    set_end(stored, "stopped", reason("job.other_started", first->record.job().id()), now_ms);
    *reply.mutable_job() = row(stored, now_ms);
    return reply;
  }
  if (planner_.size() <= kPlanAtOnce) {
    plan(now_ms);
  } else {
    actions_.look = true;  // One plan for all that are submitted together.
  }
  *reply.mutable_job() = row(stored, now_ms);
  return reply;
}

Result<v1::Job> JobCore::get(const std::string& job, const Requester& by, int64_t now_ms) const {
  Error why;
  const Job* found = find(job, by, &why);
  if (found == nullptr) return make_error(why);
  return row(*found, now_ms);
}

// An alternative of the job that is not in the queue any more, unless it only made way for another one.
const JobCore::Job* JobCore::started_alternative(const Job& job) const {
  if (job.spec().one_of().empty()) return nullptr;
  for (const auto& [number, other] : jobs_) {
    if (other.spec().one_of() != job.spec().one_of() || !same_owner(other.record.job(), job.record.job())) continue;
    if (other.record.phase() != Record::QUEUED && !other.record.job().ranks().empty()) return &other;
  }
  return nullptr;
}

// Refuses what can never run, what the settings do not allow, and what exceeds the number of urgent jobs.
Result<void> JobCore::check_admission(const Job& job) const {
  if (auto known = resolved_environment(settings_, job.spec().environment()); !known) return make_error(known.error());
  VOLADOR_TRY(check_notify(settings_, job.spec()));
  if (!seen_cluster_) return {};
  VOLADOR_TRY(check_pool(settings_, pools_, job.spec().pool(), job.spec().project()));
  const QueuedJob wanted = queued(job);
  // Without any node it waits for the first.
  const auto feasible = check_feasible(cluster_.view, wanted, planner_.options());
  if (!feasible && feasible.error().code != ErrorCode::kUnavailable) return feasible;
  return check_urgency(job, job.spec().priority());
}

// Whether the project may have one more urgent job.
Result<void> JobCore::check_urgency(const Job& job, const std::string& priority) const {
  const bool was_urgent = !job.record.job().id().empty() && job.spec().priority() != "normal";
  if (priority == "normal" || was_urgent) return {};
  if (!planner_.options().urgent_quota.contains(job.spec().project())) return {};
  return check_urgent_quota(planner_.view(), planner_.queue(), job.spec().project(), planner_.options());
}

v1::ListJobsReply JobCore::list(const v1::ListJobsRequest& request, const Requester& by, int64_t now_ms) const {
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
    if (!request.owner().empty() && request.owner() != shown.owner() && request.owner() != shown.user()) continue;
    if (!request.batch().empty() && request.batch() != job.spec().batch()) continue;
    if (access_to(shown, settings_, by) == JobAccess::kNone) continue;
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
  const Reason why = by.user.empty() ? reason("job.stopped_by", by.token_id) : reason("job.stopped_by_user", by.user);
  set_reason(*job.record.mutable_job(), why);
  if (job.record.phase() == Record::QUEUED) {
    set_end(job, "stopped", why, now_ms);
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
  VOLADOR_TRY(check_urgency(job, request.priority()));
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
  VOLADOR_TRY(check_duration_maximum(settings_, request.duration_s()));
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

// ---- settings ----

v1::GetQueueReply JobCore::queue() const {
  v1::GetQueueReply reply;
  *reply.mutable_settings() = without_secrets(settings_);
  if (reply.settings().preemption().empty()) reply.mutable_settings()->set_preemption("never");
  std::map<std::string, v1::PoolState> pools;
  std::map<std::string, v1::ProjectState> projects;
  pools[std::string(kDefaultPool)];
  for (const v1::Pool& pool : settings_.pools()) *pools[pool.name()].mutable_pool() = pool;
  for (const v1::Project& project : settings_.projects()) *projects[project.name()].mutable_project() = project;
  const auto add = [](const ResourceSet& from, google::protobuf::Map<std::string, double>& to) {
    for (const auto& [name, amount] : from.entries())
      to[name] += name == "memory" ? static_cast<double>(amount) : static_cast<double>(amount) / double{kUnit};
  };
  for (const PlanNode& node : cluster_.view.nodes) {
    v1::PoolState& pool = pools[node.pool];
    pool.add_nodes(node.name);
    add(node.total, *pool.mutable_total());
    add(node.free, *pool.mutable_free());
  }
  for (const int64_t number : open_) {
    const Job& job = jobs_.at(number);
    const bool waits = job.record.phase() == Record::QUEUED;
    v1::PoolState& pool = pools[job.spec().pool()];
    v1::ProjectState& project = projects[job.spec().project()];
    for (const auto& [node, held] : job.held) add(held, *project.mutable_used());
    pool.set_running(pool.running() + (waits ? 0 : 1));
    pool.set_queued(pool.queued() + (waits ? 1 : 0));
    project.set_running(project.running() + (waits ? 0 : 1));
    project.set_queued(project.queued() + (waits ? 1 : 0));
    project.set_urgent(project.urgent() + (job.spec().priority() == "normal" ? 0 : 1));
  }
  for (auto& [name, pool] : pools) {
    pool.mutable_pool()->set_name(name);
    *reply.add_pools() = std::move(pool);
  }
  for (auto& [name, project] : projects) {
    project.mutable_project()->set_name(name);
    if (project.project().weight() == 0) project.mutable_project()->set_weight(1);
    *reply.add_projects() = std::move(project);
  }
  return reply;
}

Result<v1::GetUsageReply> JobCore::usage(const v1::GetUsageRequest& request, int64_t now_ms) const {
  std::vector<UsageLedger::Run> running;
  for (const int64_t number : active_) {
    const Job& job = jobs_.at(number);
    if (job.record.job().started_ms() != 0) running.push_back(run_of(job, now_ms));
  }
  return usage_.usage(request.from_day(), request.to_day(), running);
}

Result<v1::QueueSettings> JobCore::set_queue(const v1::QueueSettings& given) {
  v1::QueueSettings whole = given;
  VOLADOR_TRY(keep_secrets(settings_, whole));
  auto settings = checked_settings(whole);
  if (!settings) return make_error(settings.error());
  if (given.version() != 0 && given.version() != settings_.version()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("version: the settings are at version {}, these were made from version {}; get the "
                                  "present ones with `volador job queue --yaml`, and change those",
                                  settings_.version(), given.version()));
  }
  settings->set_version(settings_.version() + 1);
  settings_ = std::move(*settings);
  planner_.set_options(planner_options(settings_));
  forecast_at_ms_ = 0;
  actions_.rows.push_back({std::string(kJobsHeadTable), "settings", settings_.SerializeAsString()});
  actions_.settings = settings_;
  event("job queue was changed", {{"version", std::to_string(settings_.version())}});
  actions_.look = true;
  return without_secrets(settings_);
}

Result<ActorId> JobCore::rank_for_commands(const std::string& name, int rank, const Requester& by) const {
  Error unknown;
  const Job* found = find(name, by, &unknown);
  if (found == nullptr) return make_error(unknown);
  const Job& job = *found;
  const v1::Job& shown = job.record.job();
  if (!by.operates && !is_owner(shown, by)) return refused_access(shown, by, "run a command in", "do so");
  const auto refuse = [&](const std::string& why) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("run a command in {}: {}", shown.id(), why));
  };
  switch (job.record.phase()) {
    case Record::QUEUED:
    case Record::PLACING:
      return refuse(fmt::format("it does not run yet; `volador job show {}` says what it waits for", shown.id()));
    case Record::RUNNING:
      break;
    case Record::ENDING:
      return refuse("it is ending; submit it again with `volador job clone` to look into it");
    default:
      return refuse(
          fmt::format("it has ended ({}); `volador job logs {}` has its output, and `volador job clone {}` "
                      "submits it again",
                      shown.state(), shown.id(), shown.id()));
  }
  if (rank < 0 || rank >= static_cast<int>(job.ranks.size()))
    return refuse(fmt::format("rank: expected 0 to {}, got {}", job.ranks.size() - 1, rank));
  const Rank& wanted = job.ranks[static_cast<size_t>(rank)];
  if (wanted.state == protocol::ACTOR_STATE_UNSPECIFIED) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("run a command in {}: the head has started and has not found rank {} yet; ask again",
                                  shown.id(), rank));
  }
  if (wanted.state != protocol::ALIVE)
    return refuse(fmt::format("rank {} is {}; `volador job show {}` lists the ranks", rank, shown.ranks(rank).state(),
                              shown.id()));
  return wanted.actor;
}

v1::Job JobCore::row(const Job& job, int64_t now_ms) const {
  v1::Job out = job.record.job();
  hide_secrets(out);
  const bool placing = job.record.phase() == Record::PLACING;
  if (placing && !job.waits.empty()) set_reason(out, job.waits);
  if (job.record.phase() == Record::QUEUED) {
    if (const Reason why = wait_reason(job); !why.empty()) set_reason(out, why);
  }
  if (job.record.phase() == Record::QUEUED) {
    out.set_position(position(job));
    const auto& all = forecasts(now_ms);
    if (const auto found = all.find(job.record.number()); found != all.end()) {
      fill(found->second, *out.mutable_start());
      // It waits: a time that has come means that a running job takes longer than foreseen.
      if (out.start().likely_ms() != 0) out.mutable_start()->set_likely_ms(std::max(out.start().likely_ms(), now_ms));
    }
  }
  return out;
}

JobActions JobCore::take() {
  for (const int64_t number : std::exchange(changed_trials_, {})) {
    actions_.trials.push_back(jobs_.at(number).record.job());
    hide_secrets(actions_.trials.back());
  }
  return std::exchange(actions_, {});
}

void JobCore::check_invariants() const {
  for (const auto& [number, job] : jobs_) {
    VOLADOR_CHECK((job.record.phase() != Record::ENDED) == open_.contains(number), job_id(number));
    VOLADOR_CHECK(job.record.number() == number, job_id(number));
    if (job.record.phase() == Record::QUEUED || job.record.phase() == Record::ENDED)
      VOLADOR_CHECK(job.ranks.empty(), job_id(number));
    for (const Rank& rank : job.ranks) VOLADOR_CHECK(by_actor_.at(rank.actor) == number, job_id(number));
  }
  for (const int64_t number : open_) {
    const bool is_queued = jobs_.at(number).record.phase() == Record::QUEUED;
    VOLADOR_CHECK(is_queued != active_.contains(number), job_id(number));
    VOLADOR_CHECK(is_queued == (planner_.find(static_cast<JobNumber>(number)) != nullptr), job_id(number));
    VOLADOR_CHECK(is_queued != (planner_.find_running(static_cast<JobNumber>(number)) != nullptr), job_id(number));
  }
  for (const int64_t number : active_) {
    const Job& job = jobs_.at(number);
    VOLADOR_CHECK(job.spec().grow() == growing_.contains(number), job_id(number));
    VOLADOR_CHECK(is_watched(job.spec()) == watched_.contains(number), job_id(number));
    const int nodes = job.record.job().ranks_size();
    const int least = is_elastic(job.spec()) ? job.spec().min_nodes() : job.spec().nodes();
    VOLADOR_CHECK(nodes >= least && nodes <= job.spec().nodes(), job_id(number));
  }
  std::unordered_map<std::string, ResourceSet> held;
  for (const int64_t number : active_) {
    for (const auto& [node, resources] : jobs_.at(number).held) held[node] += resources;
  }
  VOLADOR_CHECK(held == held_, std::to_string(held.size()));
  VOLADOR_CHECK(std::ranges::includes(active_, unseen_), std::to_string(unseen_.size()));
  VOLADOR_CHECK(planner_.size() + active_.size() == open_.size(), std::to_string(open_.size()));
  for (const int64_t number : open_) VOLADOR_CHECK(jobs_.contains(number), job_id(number));
  VOLADOR_CHECK(ended_.size() + open_.size() == jobs_.size(), std::to_string(jobs_.size()));
}

}  // namespace volador::jobs
