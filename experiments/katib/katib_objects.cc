// Resources as objects of the Kubernetes API: metadata, spec and status.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "experiments/katib/katib_core.h"
#include "experiments/katib/trial_template.h"
#include "experiments/katib/wire.h"
#include "runtime/yaml/writer.h"

namespace volador::experiments::katib {
namespace {

using Json = nlohmann::ordered_json;

std::string time_text(int64_t ms) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(ms / 1000)));
}
void set_time(Json& object, const char* key, int64_t ms) {
  if (ms != 0) object[key] = time_text(ms);
}

Json conditions_json(const ConditionList& conditions) {
  Json all = Json::array();
  for (const protocol::KatibCondition& one : conditions) {
    all.push_back({{"type", one.type()},
                   {"status", one.status()},
                   {"reason", one.reason()},
                   {"message", one.message()},
                   {"lastUpdateTime", time_text(one.updated_ms())},
                   {"lastTransitionTime", time_text(one.changed_ms())}});
  }
  return all;
}

Json assignments_json(const protocol::KatibTrialRecord& trial) {
  Json all = Json::array();
  for (const auto& one : trial.assignments()) all.push_back({{"name", one.name()}, {"value", one.value()}});
  return all;
}

Json metrics_json(const protocol::KatibTrialRecord& trial) {
  Json all = Json::array();
  for (const protocol::KatibMetric& one : trial.observation())
    all.push_back({{"name", one.name()}, {"min", one.min()}, {"max", one.max()}, {"latest", one.latest()}});
  return all;
}

std::string dumped(const Json& object) { return object.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json parsed(const std::string& text) {
  Json object = Json::parse(text, nullptr, false);
  return object.is_object() ? object : Json::object();
}

// The metadata that the server adds.
void add_metadata(Json& object, const protocol::KatibResourceRecord& record) {
  Json& metadata = object["metadata"];
  metadata["uid"] = record.uid();
  metadata["creationTimestamp"] = time_text(record.created_ms());
  metadata["generation"] = record.generation();
  metadata["resourceVersion"] = std::to_string(record.resource().version());
}

Json objective_json(const Objective& objective) {
  Json out{{"type", objective.maximize ? "maximize" : "minimize"}};
  if (objective.goal) out["goal"] = *objective.goal;
  out["objectiveMetricName"] = objective.metric;
  if (!objective.additional_metrics.empty()) out["additionalMetricNames"] = objective.additional_metrics;
  Json strategies = Json::array();
  for (const auto& [name, strategy] : objective.strategies) {
    strategies.push_back({{"name", name},
                          {"value", strategy == MetricStrategy::kMin   ? "min"
                                    : strategy == MetricStrategy::kMax ? "max"
                                                                       : "latest"}});
  }
  out["metricStrategies"] = std::move(strategies);
  return out;
}

}  // namespace

TrialCounts counts_of(const TrialsByNumber& trials) {
  TrialCounts counts;
  for (const auto& [number, trial] : trials) counts.add(condition_of(*trial));
  return counts;
}

const protocol::KatibTrialRecord* best_trial(const ExperimentSpec& spec, const TrialsByNumber& trials) {
  const protocol::KatibTrialRecord* best = nullptr;
  double value = 0;
  for (const auto& [number, trial] : trials) {
    const TrialCondition condition = condition_of(*trial);
    if (condition != TrialCondition::kSucceeded && condition != TrialCondition::kEarlyStopped) continue;
    const auto objective = objective_of(spec.objective, *trial);
    if (!objective || (best != nullptr && !is_better(spec.objective, *objective, value))) continue;
    best = trial;
    value = *objective;
  }
  return best;
}

std::map<std::string, std::string> labels_of(const std::string& experiment, const protocol::KatibTrialRecord& trial) {
  std::map<std::string, std::string> labels(trial.labels().begin(), trial.labels().end());
  labels["katib.kubeflow.org/experiment"] = experiment;
  return labels;
}

std::string experiment_object(const protocol::KatibResourceRecord& record, const ExperimentSpec& spec,
                              const TrialsByNumber& trials) {
  struct Names {
    const char* list;
    const char* count;
  };
  // By TrialCondition.
  static constexpr Names kNames[kTrialConditions] = {{"pendingTrialList", "trialsPending"},
                                                     {"runningTrialList", "trialsRunning"},
                                                     {"succeededTrialList", "trialsSucceeded"},
                                                     {"killedTrialList", "trialsKilled"},
                                                     {"failedTrialList", "trialsFailed"},
                                                     {"metricsUnavailableTrialList", "trialMetricsUnavailable"},
                                                     {"earlyStoppedTrialList", "trialsEarlyStopped"}};
  Json object = parsed(record.resource().object());
  add_metadata(object, record);
  Json status = Json::object();
  status["conditions"] = conditions_json(record.conditions());
  if (const auto* best = best_trial(spec, trials)) {
    status["currentOptimalTrial"] = {{"bestTrialName", best->name()},
                                     {"parameterAssignments", assignments_json(*best)},
                                     {"observation", {{"metrics", metrics_json(*best)}}}};
  }
  set_time(status, "startTime", record.started_ms());
  set_time(status, "completionTime", record.completed_ms());
  set_time(status, "lastReconcileTime", record.resource().version());
  Json lists = Json::object();
  for (const auto& [number, trial] : trials) {
    Json& list = lists[kNames[static_cast<size_t>(condition_of(*trial))].list];
    if (list.is_null()) list = Json::array();
    list.push_back(trial->name());
  }
  status.update(lists);
  if (!trials.empty()) status["trials"] = trials.size();
  const TrialCounts counts = counts_of(trials);
  for (size_t i = 0; i < kTrialConditions; ++i) {
    if (counts.by_condition[i] > 0) status[kNames[i].count] = counts.by_condition[i];
  }
  object["status"] = std::move(status);
  return dumped(object);
}

std::string suggestion_object(const protocol::KatibResourceRecord& record, const ExperimentSpec& spec,
                              const TrialsByNumber& trials) {
  const v1::KatibResource& shown = record.resource();
  Json settings = Json::array();
  for (const Setting& one : spec.algorithm.settings) settings.push_back({{"name", one.name}, {"value", one.value}});
  Json algorithm{{"algorithmName", spec.algorithm.name}};
  if (!settings.empty()) algorithm["algorithmSettings"] = std::move(settings);
  Json suggestions = Json::array();
  for (const auto& [number, trial] : trials)
    suggestions.push_back({{"name", trial->name()}, {"parameterAssignments", assignments_json(*trial)}});
  static constexpr const char* kPolicies[] = {"Never", "LongRunning", "FromVolume"};
  Json object{{"apiVersion", "kubeflow.org/v1beta1"},
              {"kind", "Suggestion"},
              {"metadata",
               {{"name", shown.name()},
                {"namespace", shown.namespace_()},
                {"labels", {{"katib.kubeflow.org/experiment", shown.name()}}},
                {"creationTimestamp", time_text(record.created_ms())}}},
              {"spec",
               {{"algorithm", std::move(algorithm)},
                {"requests", trials.size()},
                {"resumePolicy", kPolicies[static_cast<size_t>(spec.resume)]}}}};
  Json status{{"conditions", conditions_json(record.suggestion_conditions())}, {"suggestionCount", trials.size()}};
  set_time(status, "startTime", record.started_ms());
  set_time(status, "completionTime", record.completed_ms());
  Json changed = Json::array();
  for (const auto& one : record.settings()) changed.push_back({{"name", one.name()}, {"value", one.value()}});
  if (!changed.empty()) status["algorithmSettings"] = std::move(changed);
  status["suggestions"] = std::move(suggestions);
  object["status"] = std::move(status);
  return dumped(object);
}

std::string trial_object(const protocol::KatibResourceRecord& record, const Resource& experiment,
                         const protocol::KatibTrialRecord& trial) {
  const v1::KatibResource& shown = record.resource();
  const ExperimentSpec& spec = *experiment.experiment;
  Json object{{"apiVersion", "kubeflow.org/v1beta1"},
              {"kind", "Trial"},
              {"metadata",
               {{"name", trial.name()},
                {"namespace", shown.namespace_()},
                {"labels", labels_of(shown.name(), trial)},
                {"creationTimestamp", time_text(trial.created_ms())},
                {"ownerReferences", Json::array({{{"apiVersion", "kubeflow.org/v1beta1"},
                                                  {"kind", "Experiment"},
                                                  {"name", shown.name()},
                                                  {"uid", record.uid()}}})}}}};
  Json wanted{{"objective", objective_json(spec.objective)},
              {"parameterAssignments", assignments_json(trial)},
              {"primaryContainerName", spec.trial_template.primary_container},
              {"successCondition", spec.trial_template.success_condition},
              {"failureCondition", spec.trial_template.failure_condition}};
  if (spec.trial_template.retain) wanted["retainRun"] = true;
  Json rules = Json::array();
  for (const auto& rule : trial.rules()) {
    rules.push_back({{"name", rule.name()},
                     {"value", rule.value()},
                     {"comparison", rule.comparison() == api::v1::beta1::GREATER ? "greater"
                                    : rule.comparison() == api::v1::beta1::LESS  ? "less"
                                                                                 : "equal"},
                     {"startStep", rule.start_step()}});
  }
  if (!rules.empty()) wanted["earlyStoppingRules"] = std::move(rules);
  Assignments assignments;
  for (const auto& one : trial.assignments()) assignments.push_back({one.name(), one.value()});
  if (const auto run =
          substitute(spec.trial_template,
                     {.name = trial.name(), .name_space = shown.namespace_(), .labels = labels_of(shown.name(), trial)},
                     assignments))
    wanted["runSpec"] = parsed(yaml::json_text(*run));
  object["spec"] = std::move(wanted);
  Json status{{"conditions", conditions_json(trial.conditions())}};
  if (trial.observation_size() > 0) status["observation"] = {{"metrics", metrics_json(trial)}};
  set_time(status, "startTime", trial.started_ms());
  set_time(status, "completionTime", trial.completed_ms());
  object["status"] = std::move(status);
  return dumped(object);
}

std::string job_object(const protocol::KatibResourceRecord& record) {
  Json object = parsed(record.resource().object());
  add_metadata(object, record);
  Json status{{"conditions", conditions_json(record.conditions())}};
  set_time(status, "startTime", record.started_ms());
  set_time(status, "completionTime", record.completed_ms());
  if (record.resource().kind() == "Job") {
    const bool succeeded = has_condition(record.conditions(), "Complete");
    const bool failed = has_condition(record.conditions(), "Failed");
    if (succeeded) status["succeeded"] = 1;
    if (failed) status["failed"] = 1;
    if (!succeeded && !failed && record.started_ms() != 0) status["active"] = 1;
  }
  object["status"] = std::move(status);
  return dumped(object);
}

api::v1::beta1::Trial to_wire(const ExperimentSpec& spec, const protocol::KatibTrialRecord& trial) {
  static constexpr api::v1::beta1::TrialStatus::TrialConditionType kConditions[kTrialConditions] = {
      api::v1::beta1::TrialStatus::CREATED,     api::v1::beta1::TrialStatus::RUNNING,
      api::v1::beta1::TrialStatus::SUCCEEDED,   api::v1::beta1::TrialStatus::KILLED,
      api::v1::beta1::TrialStatus::FAILED,      api::v1::beta1::TrialStatus::METRICSUNAVAILABLE,
      api::v1::beta1::TrialStatus::EARLYSTOPPED};
  api::v1::beta1::Trial out;
  out.set_name(trial.name());
  auto& wanted = *out.mutable_spec();
  *wanted.mutable_objective() = to_wire(spec.objective);
  *wanted.mutable_parameter_assignments()->mutable_assignments() = trial.assignments();
  *wanted.mutable_labels() = trial.labels();
  auto& status = *out.mutable_status();
  if (trial.started_ms() != 0) status.set_start_time(time_text(trial.started_ms()));
  if (trial.completed_ms() != 0) status.set_completion_time(time_text(trial.completed_ms()));
  status.set_condition(kConditions[static_cast<size_t>(condition_of(trial))]);
  for (const protocol::KatibMetric& metric : trial.observation()) {
    auto& added = *status.mutable_observation()->add_metrics();
    added.set_name(metric.name());
    added.set_value(text_of(metric, strategy_of(spec.objective, metric.name())));
  }
  return out;
}

}  // namespace volador::experiments::katib
