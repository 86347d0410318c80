// What is done so that experiments, trials and jobs become as the resources say.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "experiments/katib/collection.h"
#include "experiments/katib/katib_core.h"
#include "experiments/katib/own_suggestions.h"
#include "experiments/katib/training_job.h"
#include "experiments/katib/trial_template.h"
#include "experiments/katib/wire.h"

namespace volador::experiments::katib {
namespace {

constexpr int64_t kKatibRetryMs = 3'000;
constexpr size_t kTrialNameLetters = 8;

std::string letters_of(Random& random, size_t length) {
  static constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::string text;
  for (size_t i = 0; i < length; ++i) text += kLetters[random.below(kLetters.size())];
  return text;
}

// The configuration of the experiment that runs a resource.
std::string config_of(const Resource& resource) {
  const ExperimentSpec& spec = *resource.experiment;
  return nlohmann::ordered_json{
      {"name", resource.metadata.name},
      {"description", fmt::format("{}/{} of kind Experiment, {}", resource.metadata.name_space, resource.metadata.name,
                                  spec.algorithm.name)},
      {"entrypoint", {"true"}},
      {"max_restarts", 0},
      {"searcher",
       {{"name", "custom"}, {"metric", spec.objective.metric}, {"smaller_is_better", !spec.objective.maximize}}},
      {"hyperparameters", nlohmann::ordered_json::object()},
      {"resources", {{"slots_per_trial", 0}}}}
      .dump();
}

// A value as the type of its parameter; as text if it is none.
nlohmann::ordered_json typed(const ExperimentSpec& spec, const api::v1::beta1::ParameterAssignment& assignment) {
  const auto found = std::ranges::find(spec.parameters, assignment.name(), &Parameter::name);
  if (found == spec.parameters.end() || found->kind == ParameterKind::kCategorical) return assignment.value();
  auto value = nlohmann::ordered_json::parse(assignment.value(), nullptr, false);
  return value.is_number() ? value : nlohmann::ordered_json(assignment.value());
}

}  // namespace

void KatibCore::retry_later(Held& held, int64_t now_ms) { held.retry_ms = now_ms + kKatibRetryMs; }

std::optional<int64_t> KatibCore::deadline_ms() const {
  std::optional<int64_t> first;
  for (const auto& [key, held] : resources_) {
    if (held.retry_ms != 0) first = std::min(first.value_or(held.retry_ms), held.retry_ms);
  }
  return first;
}

void KatibCore::on_tick(int64_t now_ms) {
  for (auto& [key, held] : resources_) {
    if (held.retry_ms == 0 || held.retry_ms > now_ms) continue;
    held.retry_ms = 0;
    reconcile(held, now_ms);
  }
}

void KatibCore::reconcile(Held& held, int64_t now_ms) {
  if (!heard_) return;
  is_experiment(held) ? reconcile_experiment(held, now_ms) : reconcile_job(held, now_ms);
}

void KatibCore::reconcile_experiment(Held& held, int64_t now_ms) {
  protocol::KatibResourceRecord& record = held.record;
  const int64_t experiment = record.resource().experiment();
  if (experiment != 0 && !held.heard) {  // Everything was heard of.
    held.state = "DELETED";
    held.heard = true;
  }
  TrialsByNumber trials;
  for (const auto& [number, name] : held.order) trials[number] = &held.trials.at(name).record;
  if (!is_complete(record)) {
    std::optional<double> best;
    if (const auto* found = best_trial(held.spec(), trials)) best = objective_of(held.spec().objective, *found);
    if (const auto end = end_of(held.spec(), counts_of(trials), best, record.exhausted())) {
      finish(held, *end, now_ms);
    } else if (experiment != 0 && !goes_on(held.state)) {
      const std::string message =
          fmt::format("Experiment has failed because experiment {} that runs it was ended: {}", experiment, held.state);
      finish(held, {.failed = true, .reason = "ExperimentFailed", .message = message}, now_ms);
    }
  }
  if (is_complete(record)) {
    // Trials that were not created in the experiment.
    for (auto& [name, trial] : held.trials) {
      if (is_end(condition_of(trial.record))) continue;
      if (trial.record.trial() == 0 || !goes_on(held.state)) {
        const bool ends_later = trial.record.trial() != 0 && held.state.starts_with("STOPPING");
        if (!ends_later) end_trial(held, trial, TrialCondition::kKilled, {}, now_ms);
      }
    }
    if (goes_on(held.state) && experiment != 0 && !std::exchange(held.ending, true))
      actions_.end.push_back({experiment, has_condition(record.conditions(), "Failed")});
    return;
  }
  if (held.retry_ms > now_ms) return;
  if (experiment == 0) return create_experiment(held);
  run(held, now_ms);
  const TrialCounts counts = counts_of(trials);
  const int64_t wanted = wanted_trials(held.spec(), counts);
  if (counts.active() > wanted) return drop_extra(held, counts.active() - wanted, now_ms);
  if (counts.active() < wanted && !held.asking && !held.waits && !record.exhausted())
    ask(held, counts, wanted - counts.active());
}

void KatibCore::finish(Held& held, const ExperimentEnd& end, int64_t now_ms) {
  protocol::KatibResourceRecord& record = held.record;
  auto& conditions = *record.mutable_conditions();
  remove_condition(conditions, "Restarting");
  set_end(conditions, end.failed ? "Failed" : "Succeeded", end.reason, end.message, now_ms);
  record.set_completed_ms(now_ms);
  if (held.spec().resume == ResumePolicy::kNever || end.failed) {
    set_end(*record.mutable_suggestion_conditions(), "Succeeded", "SuggestionSucceeded",
            "Suggestion is succeeded, can't be restarted", now_ms);
  } else {
    set_end(*record.mutable_suggestion_conditions(), "Succeeded", "SuggestionSucceeded",
            "Suggestion is succeeded, suggestion volume is not deleted, can be restarted", now_ms);
  }
  held.retry_ms = 0;
  actions_.ended.push_back(key_of(record.resource()));
  touch(held, now_ms);
  event(held, "a resource of kind Experiment ended", std::string(end.message));
  if (record.resource().experiment() != 0) reconcile(held, now_ms);
}

void KatibCore::create_experiment(Held& held) {
  if (std::exchange(held.creating, true)) return;
  KatibActions::Create& made = actions_.create.emplace_back();
  made.of = key_of(held.record.resource());
  made.uid = held.record.uid();
  made.as = owner_of(held);
  made.request.set_config(config_of(held.resource));
  made.request.set_config_name(made.of.name);
  made.request.set_files_sha256(held.record.files_sha256());
  made.request.set_request_id(fmt::format("katib-{}-{}", held.record.uid(), held.record.incarnation()));
}

void KatibCore::ask(Held& held, const TrialCounts& counts, int64_t add) {
  held.asking = true;
  KatibActions::Ask& asked = actions_.ask.emplace_back();
  asked.of = key_of(held.record.resource());
  asked.uid = held.record.uid();
  asked.algorithm = held.spec().algorithm.name;
  auto& request = asked.request;
  *request.mutable_experiment() = to_wire(asked.of.name, held.spec());
  auto& settings = *request.mutable_experiment()->mutable_spec()->mutable_algorithm()->mutable_algorithm_settings();
  for (const auto& changed : held.record.settings()) {
    const auto known = std::ranges::find_if(settings, [&](const auto& one) { return one.name() == changed.name(); });
    if (known != settings.end()) {
      known->set_value(changed.value());
    } else {
      *settings.Add() = changed;
    }
  }
  for (const auto& [number, name] : held.order)
    *request.add_trials() = to_wire(held.spec(), held.trials.at(name).record);
  request.set_current_request_number(static_cast<int32_t>(add));
  request.set_total_request_number(static_cast<int32_t>(counts.all() + add));
}

void KatibCore::on_suggestions(const ResourceKey& of, const std::string& uid,
                               const Result<api::v1::beta1::GetSuggestionsReply>& reply, int64_t now_ms) {
  Held* held = find(of, uid);
  if (held == nullptr) return;
  held->asking = false;
  protocol::KatibResourceRecord& record = held->record;
  if (is_complete(record)) return;
  auto& of_suggestion = *record.mutable_suggestion_conditions();
  if (!reply) {
    const Error& error = reply.error();
    if (error.code != ErrorCode::kInvalidArgument && error.code != ErrorCode::kNotFound)
      return retry_later(*held, now_ms);
    set_end(of_suggestion, "Failed", "SuggestionFailed", "Suggestion has failed: " + error.message, now_ms);
    const std::string message = "Experiment has failed because suggestion has failed: " + error.message;
    return finish(*held, {.failed = true, .reason = "ExperimentFailed", .message = message}, now_ms);
  }
  TrialCounts counts;
  for (const auto& [name, trial] : held->trials) counts.add(condition_of(trial.record));
  // The counts may have been edited since it was asked.
  const int64_t add = wanted_trials(held->spec(), counts) - counts.active();
  const auto given = static_cast<int64_t>(reply->parameter_assignments_size());
  if (given == 0 && counts.active() == 0) record.set_exhausted(true);
  held->waits = given < add;
  if (reply->has_algorithm() && reply->algorithm().algorithm_settings_size() > 0)
    *record.mutable_settings() = reply->algorithm().algorithm_settings();
  set_condition(of_suggestion, "DeploymentReady", true, "DeploymentReady", "Deployment is ready", now_ms);
  set_condition(of_suggestion, "Running", true, "SuggestionRunning", "Suggestion is running", now_ms);
  auto& conditions = *record.mutable_conditions();
  if (given > 0) {
    remove_condition(conditions, "Restarting");
    set_condition(conditions, "Running", true, "ExperimentRunning", "Experiment is running", now_ms);
  }
  for (int64_t i = 0; i < std::min(given, add); ++i) {
    const auto& one = reply->parameter_assignments(static_cast<int>(i));
    std::string name = one.trial_name();
    while (name.empty() || of_trial_.contains(name)) name = of.name + "-" + letters_of(random_, kTrialNameLetters);
    Trial& trial = held->trials[name];
    protocol::KatibTrialRecord& made = trial.record;
    made.set_name(name);
    made.set_request(name);
    made.set_namespace_(of.name_space);
    made.set_experiment(of.name);
    *made.mutable_assignments() = one.assignments();
    *made.mutable_labels() = one.labels();
    *made.mutable_rules() = reply->early_stopping_rules();
    made.set_number(held->order.empty() ? 1 : held->order.rbegin()->first + 1);
    made.set_created_ms(now_ms);
    made.set_incarnation(record.incarnation());
    made.set_state("Created");
    set_condition(*made.mutable_conditions(), "Created", true, "TrialCreated", "Trial is created", now_ms);
    held->order[made.number()] = name;
    of_trial_[name] = {of, name};
    touch(*held, trial, now_ms);
  }
  touch(*held, now_ms);
  reconcile(*held, now_ms);
}

Result<protocol::KatibTrialProgram> KatibCore::program_of(const Held& held, const Trial& trial) const {
  const protocol::KatibTrialRecord& record = trial.record;
  const ExperimentSpec& spec = held.spec();
  Assignments assignments;
  nlohmann::ordered_json hparams = nlohmann::ordered_json::object();
  for (const auto& one : record.assignments()) {
    assignments.push_back({one.name(), one.value()});
    hparams[one.name()] = typed(spec, one);
  }
  const Metadata metadata{.name = record.name(),
                          .name_space = held.record.resource().namespace_(),
                          .labels = labels_of(held.record.resource().name(), record),
                          .annotations = {}};
  const auto object = substitute(spec.trial_template, metadata, assignments);
  if (!object) return make_error(object.error());
  auto job = job_of(*object, spec.trial_template.primary_container);
  if (!job) return make_error(job.error());
  if (const std::string& code = held.record.files_sha256(); !code.empty()) add_code(code, *job);
  protocol::KatibTrialProgram program;
  program.set_name(record.name());
  program.set_hparams(hparams.dump());
  *program.mutable_job() = std::move(*job);
  Collection collection{.trial = record.name(), .objective = spec.objective, .collector = spec.collector, .rules = {}};
  for (const auto& rule : record.rules()) {
    char* end = nullptr;
    const double value = std::strtod(rule.value().c_str(), &end);
    if (end == rule.value().c_str()) continue;
    collection.rules.push_back({.metric = rule.name(),
                                .value = value,
                                .comparison = rule.comparison() == api::v1::beta1::GREATER ? Comparison::kGreater
                                              : rule.comparison() == api::v1::beta1::LESS  ? Comparison::kLess
                                                                                           : Comparison::kEqual,
                                .start_step = rule.start_step()});
  }
  if (const auto checkpoints = checkpoint_folder(spec.algorithm, record.labels())) {
    collection.checkpoints = checkpoints->path;
    const auto parent = held.trials.find(checkpoints->parent);
    if (parent != held.trials.end()) collection.parent = parent->second.record.trial();
  }
  program.set_collection(to_json(collection));
  return program;
}

// Trials that the experiment does not have yet.
void KatibCore::run(Held& held, int64_t now_ms) {
  if (held.running || !goes_on(held.state)) return;
  std::vector<protocol::KatibTrialProgram> programs;
  for (const auto& [number, name] : held.order) {
    Trial& trial = held.trials.at(name);
    if (trial.record.trial() != 0 || is_end(condition_of(trial.record))) continue;
    auto program = program_of(held, trial);
    if (program) {
      programs.push_back(std::move(*program));
      continue;
    }
    v1::TrialInfo failed;
    failed.set_reason(program.error().message);
    end_trial(held, trial, TrialCondition::kFailed, failed, now_ms);
  }
  if (programs.empty()) return;
  held.running = true;
  actions_.run.push_back({.of = key_of(held.record.resource()),
                          .uid = held.record.uid(),
                          .experiment = held.record.resource().experiment(),
                          .programs = std::move(programs)});
}

// The trials are heard of by on_experiment() before.
void KatibCore::on_run(const ResourceKey& of, const std::string& uid, const Result<void>& ran, int64_t now_ms) {
  Held* held = find(of, uid);
  if (held == nullptr) return;
  held->running = false;
  if (!ran) return retry_later(*held, now_ms);
  reconcile(*held, now_ms);
}

// Fewer trials are to run at once: the newest ones are dropped.
void KatibCore::drop_extra(Held& held, int64_t extra, int64_t now_ms) {
  for (auto at = held.order.rbegin(); at != held.order.rend() && extra > 0;) {
    const std::string name = at->second;
    Trial& trial = held.trials.at(name);
    if (is_end(condition_of(trial.record))) {
      ++at;
      continue;
    }
    if (trial.record.trial() != 0) actions_.kill_trials.push_back(trial.record.trial());
    const v1::KatibResource& of = held.record.resource();
    v1::KatibResource gone;
    gone.set_kind("Trial");
    gone.set_namespace_(of.namespace_());
    gone.set_name(name);
    forget(std::move(gone), now_ms);
    actions_.rows.push_back(
        {std::string(kKatibTrialsTable), of.namespace_() + "/" + of.name() + "/" + name, std::nullopt});
    of_trial_.erase(name);
    held.trials.erase(name);
    at = decltype(at)(held.order.erase(std::next(at).base()));
    --extra;
  }
  touch(held, now_ms);
}

void KatibCore::event(const Held& held, std::string text, std::string why) {
  const v1::KatibResource& of = held.record.resource();
  ExperimentEvent made{std::move(text), {{"kind", of.kind()}, {"namespace", of.namespace_()}, {"name", of.name()}}};
  if (!why.empty()) made.fields.emplace_back("why", std::move(why));
  actions_.events.push_back(std::move(made));
}

// ---- training jobs ----

void KatibCore::reconcile_job(Held& held, int64_t now_ms) {
  protocol::KatibResourceRecord& record = held.record;
  if (is_complete(record) || held.submitting || held.retry_ms > now_ms) return;
  if (!record.resource().job().empty()) {
    if (held.heard) return;
    held.heard = true;
    set_end(*record.mutable_conditions(), "Failed", record.resource().kind() + "Failed",
            fmt::format("{} is not there any more", record.resource().job()), now_ms);
    record.set_completed_ms(now_ms);
    return touch(held, now_ms);
  }
  auto job = job_of(held.resource.object);
  if (!job) {
    set_end(*record.mutable_conditions(), "Failed", record.resource().kind() + "Failed", job.error().message, now_ms);
    record.set_completed_ms(now_ms);
    return touch(held, now_ms);
  }
  held.submitting = true;
  job->set_name(record.resource().name());
  job->set_trial(job_text(record.uid()));
  if (!record.files_sha256().empty()) add_code(record.files_sha256(), *job);
  actions_.submit.push_back(
      {.of = key_of(record.resource()), .uid = record.uid(), .as = owner_of(held), .spec = std::move(*job)});
}

void KatibCore::on_submitted(const ResourceKey& of, const std::string& uid, const Result<v1::Job>& job,
                             int64_t now_ms) {
  Held* held = find(of, uid);
  if (held == nullptr) {
    if (job) on_job(*job, now_ms);  // It was deleted meanwhile.
    return;
  }
  held->submitting = false;
  if (job) return see_job(*held, *job, now_ms);
  if (job.error().code == ErrorCode::kUnavailable || job.error().code == ErrorCode::kCancelled)
    return retry_later(*held, now_ms);
  set_end(*held->record.mutable_conditions(), "Failed", of.kind + "Failed", job.error().message, now_ms);
  held->record.set_completed_ms(now_ms);
  touch(*held, now_ms);
}

void KatibCore::on_job(const v1::Job& job, int64_t now_ms) {
  const std::string& text = job.spec().trial();
  if (!is_job_text(text)) return;
  const auto owner = of_job_.find(text.substr(job_text("").size()));
  if (owner != of_job_.end()) return see_job(resources_.at(owner->second), job, now_ms);
  const bool goes = job.state() == "queued" || job.state() == "running";
  if (!goes) {
    actions_.delete_jobs.push_back(job.id());
  } else if (!job.stopping()) {
    actions_.stop_jobs.push_back(job.id());
  }
}

void KatibCore::see_job(Held& held, const v1::Job& job, int64_t now_ms) {
  protocol::KatibResourceRecord& record = held.record;
  held.heard = true;
  if (is_complete(record)) return;
  const std::string& kind = record.resource().kind();
  auto& conditions = *record.mutable_conditions();
  bool changed = record.resource().job() != job.id();
  record.mutable_resource()->set_job(job.id());
  if (job.started_ms() != 0 && record.started_ms() == 0) {
    record.set_started_ms(job.started_ms());
    changed = true;
  }
  if (job.state() == "running") {
    changed |= set_condition(conditions, "Running", true, kind + "Running",
                             fmt::format("{} {} is running", kind, record.resource().name()), now_ms);
  } else if (job.state() != "queued") {
    const bool succeeded = job.state() == "succeeded";
    const bool is_job = kind == "Job";
    record.set_completed_ms(job.ended_ms() == 0 ? now_ms : job.ended_ms());
    if (succeeded) {
      set_end(conditions, is_job ? "Complete" : "Succeeded", is_job ? "CompletionsReached" : kind + "Succeeded",
              is_job ? "Reached expected number of succeeded pods"
                     : fmt::format("{} {} is successfully completed", kind, record.resource().name()),
              now_ms);
    } else {
      const bool by_limit = is_job && job.state() == "failed";
      set_end(conditions, "Failed", by_limit ? "BackoffLimitExceeded" : kind + "Failed",
              by_limit ? "Job has reached the specified backoff limit" : job.reason(), now_ms);
    }
    changed = true;
  }
  if (changed) touch(held, now_ms);
}

}  // namespace volador::experiments::katib
