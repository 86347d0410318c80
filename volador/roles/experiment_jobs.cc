#include "volador/roles/experiment_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "experiments/core/trial_job.h"
#include "runtime/log.h"
#include "runtime/operations/registry.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "volador/roles/experiment_rows.h"

namespace volador {
namespace {

using namespace std::chrono_literals;

constexpr auto kAskJobsAgainAfter = 1s;
constexpr auto kGarbagePause = 10s;  // After a job; doubled for each failure in a row.
constexpr int kGarbageDoublings = 8;
constexpr int32_t kJobsListed = 100'000;  // More than the head keeps.

bool has_ended(const v1::Job& job) { return job.state() != "queued" && job.state() != "running"; }

// The experiment of "garbage-<experiment>.<run>".
std::optional<int64_t> garbage_of(std::string_view trial) {
  const auto parsed = experiments::parse_trial_text(trial);
  return parsed && parsed->is_garbage ? std::optional(parsed->id) : std::nullopt;
}

}  // namespace

security::Principal principal_of_cluster() {
  return {.role = security::Role::kOperator,
          .role_name = to_string(security::Role::kOperator),
          .name = "experiments",
          .token_id = "experiments"};
}

security::Principal principal_of(const experiments::ExperimentRequester& requester) {
  const security::Role role = requester.operates ? security::Role::kOperator : security::Role::kDriver;
  return {.role = role,
          .role_name = to_string(role),
          .name = "token " + requester.token_id,
          .token_id = requester.token_id,
          .user = requester.user};
}

void ExperimentJobs::recover() {
  const auto open = parts_.core.open_jobs();
  v1::ListJobsRequest request;
  request.set_limit(kJobsListed);
  parts_.registry.call<v1::ListJobsReply>(
      "Jobs/ListJobs", principal_of_cluster(), request, [this, open](Result<v1::ListJobsReply> reply) {
        parts_.post([this, open, reply = std::move(reply)] {
          if (reply) return recovered(open, *reply);
          log::warn("experiments", "the jobs of trials are not known yet", {{"why", reply.error().message}});
          parts_.later(kAskJobsAgainAfter, [this] { recover(); });
        });
      });
}

void ExperimentJobs::recovered(const std::vector<experiments::ExperimentCore::OpenJob>& open,
                               const v1::ListJobsReply& jobs) {
  std::unordered_map<std::string, const v1::Job*> by_trial;
  for (const v1::Job& job : jobs.jobs()) {
    const std::string& trial = job.spec().trial();
    if (trial.empty()) continue;
    by_trial.emplace(trial, &job);
    const auto collects = garbage_of(trial);
    if (collects && !has_ended(job)) {
      garbage_[*collects].runs = true;
      garbage_[*collects].job = trial;
    }
    if (trial_run_of(trial)) parts_.seen(job);
    if (!collects && !trial_run_of(trial) && parts_.other) parts_.other(job);
  }
  for (const auto& one : open) {
    const auto found = by_trial.find(experiments::trial_text(one.trial, one.run));
    if (found != by_trial.end()) {
      parts_.core.on_job(*found->second, parts_.now_ms());
    } else {
      parts_.core.on_job_gone(one.trial, one.run, parts_.now_ms());
    }
  }
  is_recovered_ = true;
  std::vector<int64_t> waiting;
  for (const auto& [experiment, garbage] : garbage_) {
    if (garbage.wanted) waiting.push_back(experiment);
  }
  for (const int64_t experiment : waiting) start_garbage(experiment);
}

v1::SubmitJobRequest ExperimentJobs::request_of(const experiments::TrialJob& job) const {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = job.spec;
  for (auto& [name, value] : parts_.env()) request.mutable_spec()->mutable_env()->insert({name, value});
  return request;
}

void ExperimentJobs::submit(experiments::TrialJob job) {
  submitting_.insert({job.trial, job.run});
  parts_.submit(principal_of(job.as), request_of(job),
                [this, trial = job.trial, run = job.run](Result<v1::SubmitJobReply> reply) {
                  parts_.post([this, trial, run, reply = std::move(reply)] { on_submitted(trial, run, reply); });
                });
}

void ExperimentJobs::on_submitted(int64_t trial, int64_t run, const Result<v1::SubmitJobReply>& reply) {
  submitting_.erase({trial, run});
  const auto stopped = stops_.extract({trial, run});
  if (!reply) {
    Error error = reply.error();
    // The experiment was checked against the nodes; they are gone for now, or not back yet after a restart of the head.
    if (error.code == ErrorCode::kInfeasible) error.code = ErrorCode::kUnavailable;
    return parts_.core.on_refused(trial, run, error, parts_.now_ms());
  }
  parts_.seen(reply->job());
  parts_.core.on_job(reply->job(), parts_.now_ms());
  if (!stopped.empty()) stop({.trial = trial, .run = run, .job = reply->job().id(), .now = stopped.mapped()});
}

void ExperimentJobs::stop(const experiments::TrialStop& stop) {
  if (stop.job.empty()) {
    if (submitting_.contains({stop.trial, stop.run})) stops_[{stop.trial, stop.run}] |= stop.now;
    return;
  }
  v1::StopJobRequest request;
  request.set_job(stop.job);
  request.set_now(stop.now);
  parts_.registry.call<v1::StopJobReply>(
      "Jobs/StopJob", principal_of_cluster(), request, [this, stop](Result<v1::StopJobReply> reply) {
        if (reply) return;
        parts_.post([this, stop, error = reply.error()] { on_stop_failed(stop, error); });
      });
}

void ExperimentJobs::on_stop_failed(const experiments::TrialStop& stop, const Error& error) {
  if (error.code == ErrorCode::kUnavailable)
    return parts_.later(kAskJobsAgainAfter, [this, stop] { this->stop(stop); });
  if (error.code == ErrorCode::kNotFound) return parts_.core.on_job_gone(stop.trial, stop.run, parts_.now_ms());
  // It has ended meanwhile.
  v1::GetJobRequest request;
  request.set_job(stop.job);
  parts_.registry.call<v1::Job>("Jobs/GetJob", principal_of_cluster(), request, [this](Result<v1::Job> job) {
    if (!job) return;
    parts_.post([this, job = std::move(*job)] { on_job(job); });
  });
}

void ExperimentJobs::on_job(const v1::Job& job) {
  if (const auto experiment = garbage_of(job.spec().trial())) return on_garbage_job(*experiment, job);
  if (!trial_run_of(job.spec().trial())) {
    if (parts_.other) parts_.other(job);
    return;
  }
  parts_.seen(job);
  parts_.core.on_job(job, parts_.now_ms());
}

void ExperimentJobs::collect_garbage(int64_t experiment) {
  garbage_[experiment].wanted = true;
  start_garbage(experiment);
}

void ExperimentJobs::start_garbage(int64_t experiment) {
  Garbage& garbage = garbage_[experiment];
  if (!is_recovered_ || garbage.runs || garbage.waits) return;
  garbage.wanted = false;
  garbage.runs = true;
  parts_.token(fmt::format("checkpoints of experiment {}", experiment),
               [this, experiment](Result<std::pair<std::string, std::string>> token) {
                 parts_.post([this, experiment, token = std::move(token)] {
                   if (!token) return garbage_refused(experiment, token.error().message);
                   submit_garbage(experiment, *token);
                 });
               });
}

void ExperimentJobs::submit_garbage(int64_t experiment, const std::pair<std::string, std::string>& token) {
  auto job = parts_.core.garbage_job(experiment, token);
  if (!job) {  // Nothing to delete, or it is deleted itself.
    revoke(token.first);
    garbage_.erase(experiment);
    return;
  }
  garbage_[experiment].job = job->spec.trial();
  parts_.submit(principal_of(job->as), request_of(*job), [this, experiment](Result<v1::SubmitJobReply> reply) {
    if (reply) return;
    parts_.post([this, experiment, error = reply.error()] { garbage_refused(experiment, error.message); });
  });
}

void ExperimentJobs::garbage_refused(int64_t experiment, const std::string& why) {
  log::warn("experiments", "no job deletes checkpoints", {{"experiment", std::to_string(experiment)}, {"why", why}});
  parts_.core.on_garbage_job_failed(experiment, why, parts_.now_ms());
  end_garbage(experiment, true);
}

void ExperimentJobs::on_garbage_job(int64_t experiment, const v1::Job& job) {
  parts_.core.on_job(job, parts_.now_ms());
  const auto found = garbage_.find(experiment);
  if (found == garbage_.end() || found->second.job != job.spec().trial() || !has_ended(job)) return;
  end_garbage(experiment, job.state() != "succeeded");
}

void ExperimentJobs::end_garbage(int64_t experiment, bool is_failure) {
  Garbage& garbage = garbage_[experiment];
  garbage.runs = false;
  garbage.job.clear();
  garbage.failures = is_failure ? garbage.failures + 1 : 0;
  garbage.wanted |= is_failure;
  garbage.waits = true;
  parts_.later(kGarbagePause * (1 << std::min(garbage.failures, kGarbageDoublings)), [this, experiment] {
    const auto found = garbage_.find(experiment);
    if (found == garbage_.end()) return;
    found->second.waits = false;
    if (found->second.wanted) return start_garbage(experiment);
    if (!found->second.runs) garbage_.erase(found);
  });
}

void ExperimentJobs::set_priority(const experiments::TrialPriority& priority) {
  v1::SetJobPriorityRequest request;
  request.set_job(priority.job);
  request.set_priority(priority.priority);
  parts_.registry.call<v1::SetJobPriorityReply>(
      "Jobs/SetJobPriority", principal_of_cluster(), request, [this, priority](Result<v1::SetJobPriorityReply> reply) {
        if (reply || reply.error().code != ErrorCode::kUnavailable) return;
        parts_.post(
            [this, priority] { parts_.later(kAskJobsAgainAfter, [this, priority] { set_priority(priority); }); });
      });
}

void ExperimentJobs::revoke(const std::string& token_id) {
  v1::RevokeTokenRequest request;
  request.set_id(token_id);
  parts_.registry.call<v1::RevokeTokenReply>(
      "Cluster/RevokeToken", principal_of_cluster(), request, [this, token_id](Result<v1::RevokeTokenReply> reply) {
        if (reply || reply.error().code != ErrorCode::kUnavailable) return;
        parts_.post([this, token_id] { parts_.later(kAskJobsAgainAfter, [this, token_id] { revoke(token_id); }); });
      });
}

}  // namespace volador
