// Runs of trials: when they are submitted as jobs, how they are asked to end, and what their ends mean.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/core/running_experiment.h"

namespace volador::experiments {
namespace {

constexpr int64_t kInvalidHpGraceMs = 10'000;
constexpr int64_t kRetryMs = 5'000;  // After which a job is submitted again that the queue could not take.

bool is_ended(const v1::Job& job) { return job.state() != "queued" && job.state() != "running"; }

// Whether a job failed with a node, by the sentences in the reason of its end.
bool was_lost(const v1::Job& job) {
  for (const std::string_view sentence :
       {"\"cause.node\"", "\"cause.worker_anew\"", "\"cause.node_with_less\"", "\"ended.node_lost\""}) {
    if (job.why().find(sentence) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

// ---- resources ----

std::optional<int64_t> RunningExperiment::max_slots() const {
  if (!definition_.has_max_slots()) return config().resources.max_slots;
  return definition_.max_slots() == 0 ? std::nullopt : std::optional<int64_t>(definition_.max_slots());
}

bool RunningExperiment::has_room() const {
  const int64_t each = int64_t{definition_.nodes()} * definition_.slots_on_node();
  const auto most = max_slots();
  return !most || (static_cast<int64_t>(running_.size()) + 1) * each <= *most;
}

void RunningExperiment::request_run(Trial& trial) {
  if (has_room()) return submit(trial);
  waiting_.insert(trial.id());
  set_reason(*trial.record.mutable_info(), reason("trial.waits_slots", max_slots().value_or(0)));
}

void RunningExperiment::submit(Trial& trial) {
  protocol::TrialRecord& record = trial.record;
  v1::TrialInfo& shown = *record.mutable_info();
  shown.set_run(shown.run() + 1);
  shown.clear_job();
  set_reason(shown, {});
  record.set_job_requested(true);
  record.clear_job_state();
  record.clear_asked_late();
  running_.insert(trial.id());
  touch(trial);
  send_job(trial);
}

void RunningExperiment::send_job(const Trial& trial) {
  const v1::TrialInfo& shown = trial.record.info();
  const protocol::KatibTrialProgram* program = program_of(trial);
  context_.actions.submit.push_back({.experiment = id(),
                                     .trial = shown.id(),
                                     .run = shown.run(),
                                     .as = creator(),
                                     .spec = program == nullptr ? job_of_trial(definition_, config(), shown)
                                                                : job_of_program(definition_, *program, shown)});
}

ExperimentRequester RunningExperiment::creator() const {
  // Only operators could have asked for very urgent jobs.
  return {.token_id = definition_.info().owner(),
          .user = definition_.info().user(),
          .operates = definition_.operates() || definition_.priority() == "very_urgent"};
}

// Trials that were created first get slots first.
void RunningExperiment::submit_waiting() {
  while (!waiting_.empty() && has_room()) {
    Trial& trial = at(*waiting_.begin());
    waiting_.erase(waiting_.begin());
    submit(trial);
  }
}

// After the limit became lower: the trials that were created last save a checkpoint, and go on when there is room again.
void RunningExperiment::preempt_excess(int64_t now_ms) {
  const int64_t each = int64_t{definition_.nodes()} * definition_.slots_on_node();
  const auto most = max_slots();
  if (!most || each == 0) return;
  int64_t stays = *most / each;
  std::vector<int64_t> excess;
  for (const int64_t number : running_) {
    const protocol::TrialRecord& record = at(number).record;
    if (record.preempt() || record.killed()) continue;
    if (stays-- <= 0) excess.push_back(number);
  }
  for (const int64_t number : excess) ask_to_end(at(number), now_ms);
}

// ---- ends that are asked for ----

void RunningExperiment::set_deadline(Trial& trial, int64_t at_ms) {
  deadlines_.erase({trial.record.preempt_deadline_ms(), trial.id()});
  trial.record.set_preempt_deadline_ms(at_ms);
  if (at_ms != 0) deadlines_.emplace(at_ms, trial.id());
  touch(trial);
}

void RunningExperiment::send_stop(Trial& trial, bool now) {
  const v1::TrialInfo& shown = trial.record.info();
  context_.actions.stop.push_back({.trial = shown.id(), .run = shown.run(), .job = shown.job(), .now = now});
}

void RunningExperiment::ask_to_end(Trial& trial, int64_t now_ms) {
  if (ends_without_job(trial, now_ms)) return;
  protocol::TrialRecord& record = trial.record;
  if (!record.preempt()) {
    record.set_preempt(true);
    set_deadline(trial, now_ms + config().preemption_timeout.count() * 1000);
  }
  // A job in the queue has no processes that could react.
  if (record.job_state() == "queued") send_stop(trial, false);
}

void RunningExperiment::kill(Trial& trial, int64_t now_ms) {
  if (ends_without_job(trial, now_ms)) return;
  set_deadline(trial, 0);
  if (trial.record.killed()) return;
  trial.record.set_killed(true);
  // Otherwise on_job() does it, when the job's id is known.
  if (!trial.record.info().job().empty()) send_stop(trial, true);
}

// Whether the trial asked for resources and has no job yet; then it releases them.
bool RunningExperiment::ends_without_job(Trial& trial, int64_t now_ms) {
  if (trial.waits_for_slots()) {
    waiting_.erase(trial.id());
    act(trial, trial.machine.processes_ended(ProcessEnd::kDone), now_ms);
    return true;
  }
  if (!retries_.contains(trial.id())) return false;
  run_ended(trial, ProcessEnd::kDone, {}, now_ms);
  return true;
}

void RunningExperiment::on_tick(int64_t now_ms) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_ms) kill(at(deadlines_.begin()->second), now_ms);
  for (auto retry = retries_.begin(); retry != retries_.end();) {
    if (retry->second > now_ms) {
      ++retry;
      continue;
    }
    send_job(at(retry->first));
    retry = retries_.erase(retry);
  }
}

std::optional<int64_t> RunningExperiment::deadline_ms() const {
  std::optional<int64_t> first;
  if (!deadlines_.empty()) first = deadlines_.begin()->first;
  for (const auto& [trial, at_ms] : retries_) first = std::min(first.value_or(at_ms), at_ms);
  return first;
}

// ---- what happens to jobs ----

void RunningExperiment::on_job(int64_t number, int64_t run, const v1::Job& job, int64_t now_ms) {
  const auto found = trials_.find(number);
  if (found == trials_.end()) return;
  Trial& trial = found->second;
  protocol::TrialRecord& record = trial.record;
  v1::TrialInfo& shown = *record.mutable_info();
  if (shown.run() != run || !record.job_requested()) return;
  retries_.erase(number);
  const bool is_new = shown.job() != job.id();
  if (is_new || record.job_state() != job.state()) {
    shown.set_job(job.id());
    record.set_job_state(job.state());
    if (job.state() == "running" && shown.started_ms() == 0) shown.set_started_ms(now_ms);
    touch(trial);
  }
  if (is_ended(job)) return job_ended(trial, job, now_ms);
  if (!is_stopping(trial.machine.state())) {
    shown.set_reason(job.reason());
    shown.set_why(job.why());
  }
  if (record.killed()) {
    if (is_new) send_stop(trial, true);
  } else if (record.preempt() && job.state() == "queued") {
    send_stop(trial, false);
  }
}

ProcessEnd RunningExperiment::end_of(const Trial& trial, const v1::Job& job, Reason& why) const {
  const protocol::TrialRecord& record = trial.record;
  if (job.state() == "stopped") {
    why = reason_of(job);
    return record.preempt() || record.killed() ? ProcessEnd::kDone : ProcessEnd::kInfrastructure;
  }
  if (record.stop_requested()) {
    why = reason("trial.asked_to_stop");
    return ProcessEnd::kUserRequestedStop;
  }
  if (job.state() == "succeeded") return ProcessEnd::kDone;
  why = reason_of(job);
  if (was_lost(job)) return ProcessEnd::kInfrastructure;
  for (const LogPolicy& policy : config().log_policies) {
    const std::string label = label_of(policy);
    const bool has = std::ranges::find(job.labels(), label) != job.labels().end();
    if (policy.action != LogAction::kCancelRetries || policy.pattern.empty() || !has) continue;
    why = reason("trial.policy", label, std::move(why));
    return ProcessEnd::kUnrecoverable;
  }
  return ProcessEnd::kUserFailure;
}

void RunningExperiment::job_ended(Trial& trial, const v1::Job& job, int64_t now_ms) {
  Reason why;
  const ProcessEnd end = end_of(trial, job, why);
  const TrialStanding standing = trial.machine.standing();
  const protocol::TrialRecord& record = trial.record;
  // A program that ends well, without having been asked to, has nothing left to do: the trial has completed, even if
  // the search waits for a validation.
  const bool by_itself = end == ProcessEnd::kDone && job.state() == "succeeded" && standing.asked &&
                         standing.state == RunState::kActive && !standing.invalid && !record.preempt() &&
                         !record.killed() && !record.asked_late();
  if (by_itself) {
    if (!settings_.options.timed) why = reason("trial.ended_itself", record.length());
    act(trial, trial.machine.completed(), now_ms);
    act(trial, trial.machine.closed(), now_ms);
  }
  run_ended(trial, end, why, now_ms);
}

void RunningExperiment::run_ended(Trial& trial, ProcessEnd end, Reason why, int64_t now_ms) {
  protocol::TrialRecord& record = trial.record;
  record.set_job_requested(false);
  record.clear_job_state();
  record.clear_preempt();
  record.clear_killed();
  set_deadline(trial, 0);
  running_.erase(trial.id());
  retries_.erase(trial.id());
  if (end == ProcessEnd::kInfrastructure) {
    record.set_losses(record.losses() + 1);
    if (record.losses() > context_.limits.losses) {
      why = reason("trial.lost_often", record.losses(), std::move(why));
      end = ProcessEnd::kUnrecoverable;
    }
  }
  const int64_t restarts = trial.machine.standing().restarts;
  if (end == ProcessEnd::kUserFailure && restarts >= config().max_restarts && config().max_restarts > 0)
    why = reason("trial.restarts_over", config().max_restarts, std::move(why));
  const bool is_killed = trial.machine.state() == RunState::kStoppingKilled;
  if (!is_killed) set_reason(*record.mutable_info(), why);
  const TrialActions actions = trial.machine.processes_ended(end);
  if (!actions.ended && !is_killed && (end == ProcessEnd::kUserFailure || end == ProcessEnd::kInfrastructure)) {
    event("trial of an experiment starts again", {{"trial", std::to_string(trial.id())},
                                                  {"restarts", std::to_string(trial.machine.standing().restarts)},
                                                  {"why", why.text()}});
  }
  act(trial, actions, now_ms);
  const TrialStanding& standing = trial.machine.standing();
  if (standing.state == RunState::kActive && !standing.has_processes)
    set_reason(*record.mutable_info(), reason("trial.waits_search"));
  if (is_active()) submit_waiting();
}

void RunningExperiment::on_refused(int64_t number, int64_t run, const Error& error, int64_t now_ms) {
  const auto found = trials_.find(number);
  if (found == trials_.end()) return;
  Trial& trial = found->second;
  if (trial.record.info().run() != run || !trial.record.job_requested()) return;
  if (trial.record.preempt() || trial.record.killed()) return run_ended(trial, ProcessEnd::kDone, {}, now_ms);
  if (error.code != ErrorCode::kUnavailable)
    return run_ended(trial, ProcessEnd::kUnrecoverable, reason("trial.refused", reason_of(error)), now_ms);
  retries_[number] = now_ms + kRetryMs;
  touch(trial);
  set_reason(*trial.record.mutable_info(), reason("trial.refused", reason_of(error)));
}

void RunningExperiment::on_job_gone(int64_t number, int64_t run, int64_t now_ms) {
  const auto found = trials_.find(number);
  if (found == trials_.end()) return;
  Trial& trial = found->second;
  if (trial.record.info().run() != run || !trial.record.job_requested()) return;
  if (trial.record.preempt() || trial.record.killed()) return run_ended(trial, ProcessEnd::kDone, {}, now_ms);
  // Its submission was lost.
  if (trial.record.info().job().empty()) return send_job(trial);
  run_ended(trial, ProcessEnd::kInfrastructure, reason("trial.job_gone", trial.record.info().job()), now_ms);
}

std::vector<ExperimentCore::OpenJob> RunningExperiment::open_jobs() const {
  std::vector<ExperimentCore::OpenJob> jobs;
  for (const int64_t number : running_) {
    const v1::TrialInfo& shown = at(number).record.info();
    if (!retries_.contains(number)) jobs.push_back({.trial = number, .run = shown.run(), .job = shown.job()});
  }
  return jobs;
}

// ---- requests of the processes of a run ----

Result<void> RunningExperiment::check_run(int64_t number, int64_t run) const {
  const Trial& trial = at(number);
  const v1::TrialInfo& shown = trial.record.info();
  if (trial.is_over())
    return make_error(ErrorCode::kCancelled,
                      fmt::format("trial {} is {}: its processes should end", number, shown.state()));
  if (shown.run() == run && trial.record.job_requested()) return {};
  return make_error(ErrorCode::kCancelled,
                    fmt::format("trial {}: run {} is over, the newest run is {}: its processes should end", number, run,
                                shown.run()));
}

StartingPoint RunningExperiment::starting_point(const Trial& trial) const {
  const std::string& latest = trial.record.info().latest_checkpoint();
  if (!latest.empty()) return {latest, checkpoints_.at(latest).info().batches()};
  return {definition_.warm_start_checkpoint(), definition_.warm_start_batches()};
}

v1::StartTrialRunReply RunningExperiment::start_run(const v1::StartTrialRunRequest& request, int64_t now_ms) {
  Trial& trial = at(request.trial());
  protocol::TrialRecord& record = trial.record;
  const StartingPoint from = starting_point(trial);
  if (request.rank() == 0) {
    if (record.begun()) {
      context_.actions.rewinds.push_back({.experiment = id(), .trial = trial.id(), .batches = from.batches});
      if (record.validated_batches() > from.batches) record.set_validated_batches(-1);
    }
    record.mutable_info()->set_batches(from.batches);
    record.set_begun(true);
    record.set_begun_run(request.run());
    trial.pace.begin(from.batches == 0 ? std::optional(0.0) : std::nullopt, now_ms);
    if (record.info().started_ms() == 0) record.mutable_info()->set_started_ms(now_ms);
    touch(trial);
  }
  v1::StartTrialRunReply reply = start_of_trial(definition_, config(), trial_info(trial.id()), from);
  if (const protocol::KatibTrialProgram* program = program_of(trial)) start_program(*program, reply);
  return reply;
}

std::optional<v1::GetTrialOperationReply> RunningExperiment::operation(int64_t number) const {
  const Trial& trial = at(number);
  v1::GetTrialOperationReply reply;
  const bool asked = trial.machine.standing().asked && trial.record.length() != 0;
  if (asked) {
    reply.set_length(trial.record.length());
  } else if (awaits_program(trial)) {
    return std::nullopt;
  } else {
    reply.set_no_more(true);
  }
  return reply;
}

Result<void> RunningExperiment::complete(const v1::CompleteTrialOperationRequest& request, int64_t now_ms) {
  Trial& trial = at(request.trial());
  protocol::TrialRecord& record = trial.record;
  if (request.length() != 0 && request.length() == record.length_done() && request.length() != record.length())
    return {};
  if (record.length() == 0 || !trial.machine.standing().asked)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("length {}: the search asks nothing of trial {} now", request.length(), trial.id()));
  if (request.length() != record.length())
    return make_error(ErrorCode::kInvalidArgument, fmt::format("length {}: the search asks trial {} for {}",
                                                               request.length(), trial.id(), record.length()));
  record.set_length_done(record.length());
  trial.pace.reached(static_cast<double>(record.length_done()), now_ms);
  record.clear_length();
  record.mutable_info()->set_searched_length(0);
  touch(trial);
  // The trials of a timed search run until they end by themselves.
  if (settings_.options.timed) return {};
  const std::string request_id = record.info().request_id();
  completing_ = trial.id();
  act(trial, trial.machine.completed(), now_ms);
  Step step;
  step.set_kind(Step::VALIDATED);
  step.set_request(request_id);
  step.set_number(request.length());
  step.set_value(request.metric());
  tell(std::move(step), now_ms);
  completing_ = 0;
  return {};
}

Result<void> RunningExperiment::report_exit(const v1::ReportTrialExitRequest& request, int64_t now_ms) {
  Trial& trial = at(request.trial());
  if (request.reason() == "user_requested_stop") {
    trial.record.set_stop_requested(true);
    touch(trial);
    return {};
  }
  if (request.reason() == "early_stopped" || request.reason() == "metrics_unavailable") {
    trial.machine.report_exit(request.reason() == "early_stopped" ? TrialExit::kEarlyStopped
                                                                  : TrialExit::kMetricsUnavailable);
    act(trial, {}, now_ms);
    return {};
  }
  if (request.reason() != "invalid_hp" && request.reason() != "init_invalid_hp")
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("reason: expected invalid_hp, init_invalid_hp, user_requested_stop, early_stopped or "
                                  "metrics_unavailable, got \"{}\"",
                                  request.reason()));
  trial.machine.report_invalid_hp(request.reason() == "init_invalid_hp");
  act(trial, {}, now_ms);
  // They should end by themselves.
  const int64_t deadline = trial.record.preempt_deadline_ms();
  const int64_t at_ms = now_ms + kInvalidHpGraceMs;
  if (!trial.record.killed()) set_deadline(trial, deadline == 0 ? at_ms : std::min(deadline, at_ms));
  return {};
}

bool RunningExperiment::should_preempt(int64_t number) const {
  return at(number).record.preempt() || at(number).record.killed();
}

}  // namespace volador::experiments
