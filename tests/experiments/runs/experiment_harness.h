// An ExperimentCore with a queue of jobs and the processes of trials, both driven by the test.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/core/experiment_core.h"
#include "runtime/protocol/experiments.pb.h"
#include "runtime/random.h"
#include "tune/space/config.h"

namespace volador::experiments {

inline const ExperimentRequester kAda{.token_id = "token-ada", .user = "ada"};
inline const ExperimentRequester kBob{.token_id = "token-bob", .user = "bob"};
inline const ExperimentRequester kNamelessRequester{.token_id = "token-nameless"};
inline const ExperimentRequester kOperator{.token_id = "token-root", .user = "root", .operates = true};
inline const std::string kNodeLost = R"(["job.on_node","n1",["cause.node","n1","its worker does not answer"]])";
inline const std::string kClusterDefaults =
    "checkpoint_storage: {type: shared_fs, host_path: /shared, storage_path: checkpoints}\n";

// What the program of a trial does in one step of the test.
enum class ProgramFate { kGoesOn, kFails, kIsLost };

class ExperimentHarness {
 public:
  explicit ExperimentHarness(ExperimentLimits limits = {}, uint64_t seed = 1)
      : limits_(limits), ids_(seed), core_(make_core()) {
    core_->start(now);
  }

  // ---- requests ----

  v1::ExperimentInfo create(const std::string& config, const ExperimentRequester& by = kAda, bool paused = false) {
    v1::CreateExperimentRequest request;
    request.set_config(config);
    request.set_paused(paused);
    return create(request, by);
  }
  v1::ExperimentInfo create(const v1::CreateExperimentRequest& request, const ExperimentRequester& by = kAda) {
    const std::string token = "trials-" + std::to_string(++tokens_);
    auto reply = core_->create(request, by, {token, token + "-text"}, view, now);
    EXPECT_TRUE(reply.has_value()) << (reply ? "" : reply.error().message);
    settle();
    return reply ? reply->experiment() : v1::ExperimentInfo();
  }
  Error refused(const std::string& config) {
    v1::CreateExperimentRequest request;
    request.set_config(config);
    const auto reply = core_->create(request, kAda, {"t", "t"}, view, now);
    EXPECT_FALSE(reply.has_value());
    settle();
    return reply ? Error{} : reply.error();
  }
  Result<v1::ExperimentInfo> change(int64_t id, const std::string& command, const ExperimentRequester& by = kAda) {
    v1::ChangeExperimentRequest request;
    request.set_id(id);
    request.set_command(command);
    auto changed = core_->change(request, by, now);
    settle();
    return changed;
  }
  v1::ExperimentInfo info(int64_t id) { return core_->get(id, kAda).value_or(v1::ExperimentInfo()); }
  std::vector<v1::TrialInfo> trials(int64_t experiment) {
    v1::ListTrialInfosRequest request;
    request.set_experiment(experiment);
    request.set_limit(10'000);
    const auto reply = core_->trials(request, kAda);
    if (!reply) return {};
    return {reply->trials().begin(), reply->trials().end()};
  }
  v1::TrialInfo trial(int64_t id) { return core_->trial(id, kAda).value_or(v1::TrialInfo()); }
  std::vector<v1::CheckpointInfo> checkpoints(int64_t experiment, bool deleted = false) {
    v1::ListCheckpointsRequest request;
    request.set_experiment(experiment);
    request.set_deleted(deleted);
    request.set_limit(10'000);
    const auto reply = core_->checkpoints(request, kAda);
    if (!reply) return {};
    return {reply->checkpoints().begin(), reply->checkpoints().end()};
  }

  // ---- requests of processes ----

  Result<v1::StartTrialRunReply> start_run(int64_t trial, int64_t run) {
    v1::StartTrialRunRequest request;
    request.set_trial(trial);
    request.set_run(run);
    auto reply = core_->start_run(request, process_of(trial), now);
    settle();
    return reply;
  }
  Result<void> complete(int64_t trial, int64_t run, int64_t length, double metric) {
    v1::CompleteTrialOperationRequest request;
    request.set_trial(trial);
    request.set_run(run);
    request.set_length(length);
    request.set_metric(metric);
    auto done = core_->complete(request, process_of(trial), now);
    settle();
    return done;
  }
  Result<v1::ReportMetricsReply> report(int64_t trial, int64_t run, const std::string& group, int64_t batches,
                                        const std::string& metrics) {
    v1::ReportMetricsRequest request;
    request.set_trial(trial);
    request.set_run(run);
    request.set_group(group);
    request.set_batches(batches);
    request.set_metrics(metrics);
    auto reply = core_->report_metrics(request, process_of(trial), now);
    settle();
    return reply;
  }
  Result<void> checkpoint(int64_t trial, int64_t run, const std::string& id, int64_t batches) {
    v1::ReportCheckpointRequest request;
    request.set_trial(trial);
    request.set_run(run);
    request.mutable_checkpoint()->set_id(id);
    request.mutable_checkpoint()->set_batches(batches);
    (*request.mutable_checkpoint()->mutable_resources())["state_dict.pth"] = 1000;
    auto saved = core_->report_checkpoint(request, process_of(trial), now);
    settle();
    return saved;
  }
  Result<void> exit_early(int64_t trial, int64_t run, const std::string& reason) {
    v1::ReportTrialExitRequest request;
    request.set_trial(trial);
    request.set_run(run);
    request.set_reason(reason);
    auto done = core_->report_exit(request, process_of(trial), now);
    settle();
    return done;
  }
  // With the token that the trial's job got.
  ExperimentRequester process_of(int64_t trial) const {
    const auto experiment = core_->experiment_of(trial);
    for (const auto& [text, job] : jobs) {
      if (job.experiment == experiment && job.shown.spec().secrets().contains("VOLADOR_TOKEN")) {
        const std::string token = job.shown.spec().secrets().at("VOLADOR_TOKEN");
        return {.token_id = token.substr(0, token.size() - 5)};
      }
    }
    return {};
  }

  // ---- jobs ----

  struct Job {
    int64_t experiment = 0, trial = 0, run = 0;
    v1::Job shown;
    bool is_over() const { return shown.state() != "queued" && shown.state() != "running"; }
    // What its process has done:
    bool asked_to_end = false;  // By SIGTERM.
    bool started = false;
    int64_t batches = 0, saved = 0;
    bool validated = false;
  };
  std::map<std::string, Job> jobs;  // By JobSpec::trial.

  // The newest job of a trial.
  Job& job_of(int64_t trial) {
    Job* newest = nullptr;
    for (auto& [text, job] : jobs) {
      if (job.trial == trial && (newest == nullptr || job.run > newest->run)) newest = &job;
    }
    EXPECT_NE(newest, nullptr) << "trial " << trial;
    static Job none;
    return newest == nullptr ? none : *newest;
  }
  std::vector<std::string> jobs_in(const std::string& state) const {
    std::vector<std::string> found;
    for (const std::string& text : open_) {
      if (jobs.at(text).shown.state() == state) found.push_back(text);
    }
    return found;
  }
  void set_job(Job& job, const std::string& state, const std::string& reason = {}, const std::string& why = {}) {
    job.shown.set_state(state);
    job.shown.set_reason(reason);
    job.shown.set_why(why);
    if (job.is_over()) open_.erase(job.shown.spec().trial());
    const v1::Job shown = job.shown;
    core_->on_job(shown, now);
    settle();
  }
  void run_job(int64_t trial) { set_job(job_of(trial), "running"); }
  void end_job(int64_t trial, const std::string& state = "succeeded", const std::string& reason = {},
               const std::string& why = {}) {
    set_job(job_of(trial), state, reason, why);
  }

  // One step of the program of a running job: it trains `unit` batches at a time, validates what the search asks for,
  // and saves a checkpoint where it is told to end and after each validation.
  void step_program(Job& job, ProgramFate fate = ProgramFate::kGoesOn, int64_t unit = 10) {
    if (fate == ProgramFate::kFails) return set_job(job, "failed", "on node n1: exited with code 1");
    if (fate == ProgramFate::kIsLost) return set_job(job, "failed", "on node n1: lost", kNodeLost);
    const int64_t trial = job.trial, run = job.run;
    if (!job.started) {
      const auto reply = start_run(trial, run);
      if (!reply) return set_job(job, "failed", reply.error().message);
      job.started = true;
      job.batches = job.saved = reply->batches();
      return;
    }
    const auto preempt = core_->should_preempt(trial, run, process_of(trial));
    if (!preempt) return set_job(job, "failed", preempt.error().message);
    if (*preempt || job.asked_to_end) {
      save(job);
      return set_job(job, job.asked_to_end ? "stopped" : "succeeded");
    }
    const auto operation = core_->operation(trial, run, process_of(trial));
    if (!operation) return set_job(job, "failed", operation.error().message);
    if (!*operation) return;
    if ((*operation)->no_more()) {
      save(job);
      return set_job(job, "succeeded");
    }
    const int64_t length = (*operation)->length();
    if (job.batches < length) {
      job.batches = std::min(length, job.batches + unit);
      job.validated = false;
      if (validates_often) {
        const double metric = metric_of(trial, job.batches);
        EXPECT_TRUE(report(trial, run, "validation", job.batches, "{\"loss\": " + std::to_string(metric) + "}"));
        return;
      }
      EXPECT_TRUE(report(trial, run, "training", job.batches, R"({"loss": 1})"));
      return;
    }
    const double metric = metric_of(trial, length);
    if (!std::exchange(job.validated, true)) {
      const auto reported = report(trial, run, "validation", job.batches, "{\"loss\": " + std::to_string(metric) + "}");
      if (!reported) set_job(job, "failed", reported.error().message);
      return;
    }
    if (job.saved < job.batches) return save(job);
    const auto done = complete(trial, run, length, metric);
    if (!done) set_job(job, "failed", done.error().message);
  }
  // Depends on the hyperparameter x, if there is one.
  double metric_of(int64_t trial_id, int64_t length) {
    const auto hparams = tune::Config::from_json(trial(trial_id).hparams());
    const double x = hparams && hparams->contains("x") ? hparams->real("x") : 0.5;
    return x + 1.0 / static_cast<double>(length + 1);
  }
  void save(Job& job) {
    if (job.saved == job.batches) return;
    const std::string id =
        "c-" + std::to_string(job.trial) + "-" + std::to_string(job.run) + "-" + std::to_string(job.batches);
    const auto saved = checkpoint(job.trial, job.run, id, job.batches);
    EXPECT_TRUE(saved.has_value()) << (saved ? "" : saved.error().message);
    job.saved = job.batches;
  }
  // Runs everything to its end, first in first out.
  void run_all(int steps_max = 200'000) {
    for (int i = 0; i < steps_max; ++i) {
      now += 100;
      const auto queued = jobs_in("queued");
      if (!queued.empty()) {
        set_job(jobs.at(queued.front()), "running");
        continue;
      }
      const auto running = jobs_in("running");
      bool any = false;
      for (const std::string& text : running) {
        Job& job = jobs.at(text);
        if (job.trial == 0) continue;
        any = true;
        if (!job.is_over()) step_program(job);
      }
      if (!any) return;
    }
    ADD_FAILURE() << "does not end";
  }

  bool validates_often = false;  // Each `unit` batches.

  // ---- restarts of the head ----

  // Each action is followed by a restart. `loses`: what was to happen after its rows is lost.
  bool restarts_always = false;
  bool loses_actions = false;
  std::function<void(ExperimentCore& core)> on_core = {};  // Called with each new core, before its rows are loaded.

  void restart() {
    core_ = make_core();
    if (on_core) on_core(*core_);
    for (const auto& [where, value] : rows) {
      const bool loaded = core_->load(where.first, where.second, value);
      EXPECT_TRUE(loaded) << where.first;
    }
    core_->start(now);
    core_->check_invariants();
    execute(core_->take());
    for (const ExperimentCore::OpenJob& open : core_->open_jobs()) {
      const auto found = jobs.find(std::to_string(open.trial) + "." + std::to_string(open.run));
      if (found == jobs.end()) {
        core_->on_job_gone(open.trial, open.run, now);
      } else {
        const v1::Job shown = found->second.shown;
        core_->on_job(shown, now);
      }
      core_->check_invariants();
      execute(core_->take());
    }
  }

  void tick(int64_t ms) {
    now += ms;
    core_->on_tick(now);
    settle();
  }
  void settle() {
    if (settled % checks_every == 0) core_->check_invariants();
    ExperimentActions actions = core_->take();
    ++settled;
    if (!restarts_always) return execute(std::move(actions));
    if (loses_actions) {
      store(actions);
    } else {
      execute(std::move(actions));
    }
    restart();
  }

  std::vector<std::string> events_named(const std::string& text) const {
    std::vector<std::string> found;
    for (const ExperimentEvent& event : events) {
      std::string fields;
      for (const auto& [name, value] : event.fields) fields += (fields.empty() ? "" : " ") + name + "=" + value;
      if (event.text == text) found.push_back(fields);
    }
    return found;
  }

  ExperimentCore& core() { return *core_; }

  int64_t now = 1'000'000;
  SlotsView view{.nodes = {{.cpus = 8, .gpus = 0, .pool = "default"}, {.cpus = 8, .gpus = 0, .pool = "default"}}};
  std::map<std::pair<std::string, std::string>, std::string> rows;
  std::vector<MetricReport> metrics;
  std::vector<MetricRewind> rewinds;
  std::vector<TrialStop> stops;
  std::vector<TrialPriority> priorities;
  std::vector<int64_t> garbage, deleted;
  std::vector<std::string> revoked;
  std::vector<ExperimentEvent> events;
  std::set<int64_t> changed_trials;
  int settled = 0;       // Number of actions.
  int checks_every = 1;  // Actions after which the tables are checked; it takes time with many trials.
  size_t rows_written = 0, bytes_written = 0;
  int refuse_jobs = 0;  // The next submissions are refused with this error.
  ErrorCode refuse_with = ErrorCode::kInvalidArgument;

 private:
  std::unique_ptr<ExperimentCore> make_core() {
    return std::make_unique<ExperimentCore>(limits_, ids_, ConfigFile{"cluster.yaml", kClusterDefaults});
  }
  void store(const ExperimentActions& actions) {
    std::set<std::pair<std::string, std::string>> seen;
    for (const ExperimentRow& row : actions.rows) {
      EXPECT_TRUE(seen.insert({row.table, row.key}).second) << "twice in one action: " << row.table;
      if (row.value) {
        rows[{row.table, row.key}] = *row.value;
        ++rows_written;
        bytes_written += row.value->size();
      } else {
        rows.erase({row.table, row.key});
      }
    }
  }
  void execute(ExperimentActions actions) {
    store(actions);
    metrics.insert(metrics.end(), actions.metrics.begin(), actions.metrics.end());
    rewinds.insert(rewinds.end(), actions.rewinds.begin(), actions.rewinds.end());
    events.insert(events.end(), actions.events.begin(), actions.events.end());
    stops.insert(stops.end(), actions.stop.begin(), actions.stop.end());
    priorities.insert(priorities.end(), actions.priorities.begin(), actions.priorities.end());
    garbage.insert(garbage.end(), actions.garbage.begin(), actions.garbage.end());
    deleted.insert(deleted.end(), actions.deleted_experiments.begin(), actions.deleted_experiments.end());
    revoked.insert(revoked.end(), actions.revoke.begin(), actions.revoke.end());
    changed_trials.insert(actions.trials.begin(), actions.trials.end());
    for (TrialJob& job : actions.submit) submit(std::move(job));
    for (const TrialStop& stop : actions.stop) stop_job(stop);
  }
  void submit(TrialJob job) {
    if (refuse_jobs > 0) {
      --refuse_jobs;
      core_->on_refused(job.trial, job.run, Error{refuse_with, "no"}, now);
      return execute(core_->take());
    }
    const std::string text = job.spec.trial();
    const auto [found, added] = jobs.try_emplace(text);
    if (added) {
      found->second.experiment = job.experiment;
      found->second.trial = job.trial;
      found->second.run = job.run;
      found->second.shown.set_id("job-" + text);
      found->second.shown.set_state("queued");
      open_.insert(text);
      *found->second.shown.mutable_spec() = std::move(job.spec);
    }
    const v1::Job shown = found->second.shown;
    core_->on_job(shown, now);
    execute(core_->take());
  }
  void stop_job(const TrialStop& stop) {
    const auto found = jobs.find(std::to_string(stop.trial) + "." + std::to_string(stop.run));
    ASSERT_NE(found, jobs.end());
    EXPECT_EQ(found->second.shown.id(), stop.job);
    Job& job = found->second;
    if (job.is_over()) return;
    if (job.shown.state() == "running" && !stop.now) {
      job.asked_to_end = true;
      return;
    }
    job.shown.set_state("stopped");
    open_.erase(job.shown.spec().trial());
    const v1::Job shown = job.shown;
    core_->on_job(shown, now);
    execute(core_->take());
  }

  const ExperimentLimits limits_;
  SeededRandom ids_;
  std::unique_ptr<ExperimentCore> core_;
  int tokens_ = 0;
  std::set<std::string> open_;  // Jobs that have not ended.
};

inline std::string single_config(const std::string& more = {}) {
  return "name: one\nentrypoint: python3 train.py\nhyperparameters: {x: 0.5, global_batch_size: 8}\n"
         "searcher: {name: single, metric: loss, max_length: {batches: 30}}\n" +
         more;
}
inline std::string random_config(int trials, int at_once = 16, const std::string& more = {}) {
  return "name: many\nentrypoint: python3 train.py\n"
         "hyperparameters: {x: {type: double, minval: 0, maxval: 1}, global_batch_size: 8}\n"
         "searcher: {name: random, metric: loss, max_length: {batches: 30}, max_trials: " +
         std::to_string(trials) + ", max_concurrent_trials: " + std::to_string(at_once) +
         "}\nreproducibility: {experiment_seed: 7}\n" + more;
}
inline std::string timed_config(int trials, int at_once) {
  return "name: timed\nentrypoint: python3 train.py\n"
         "hyperparameters: {x: {type: double, minval: 0, maxval: 1}, global_batch_size: 8}\n"
         "searcher: {name: adaptive_asha, metric: loss, time_metric: batches, max_time: 64, max_trials: " +
         std::to_string(trials) + ", max_concurrent_trials: " + std::to_string(at_once) +
         "}\nreproducibility: {experiment_seed: 7}\n";
}
inline std::string asha_config(int trials, int at_once = 16, const std::string& more = {}) {
  return "name: halving\nentrypoint: python3 train.py\n"
         "hyperparameters: {x: {type: double, minval: 0, maxval: 1}, global_batch_size: 8}\n"
         "searcher: {name: adaptive_asha, metric: loss, max_length: {batches: 64}, max_trials: " +
         std::to_string(trials) + ", max_concurrent_trials: " + std::to_string(at_once) +
         "}\nreproducibility: {experiment_seed: 7}\n" + more;
}

}  // namespace volador::experiments
