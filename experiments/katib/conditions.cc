#include "experiments/katib/conditions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace volador::experiments::katib {
namespace {

constexpr std::array<std::string_view, kTrialConditions> kConditionNames = {
    "Created", "Running", "Succeeded", "Killed", "Failed", "MetricsUnavailable", "EarlyStopped"};

}  // namespace

const protocol::KatibCondition* find_condition(const ConditionList& conditions, std::string_view type) {
  for (const protocol::KatibCondition& one : conditions) {
    if (one.type() == type) return &one;
  }
  return nullptr;
}

bool has_condition(const ConditionList& conditions, std::string_view type) {
  const auto* found = find_condition(conditions, type);
  return found != nullptr && found->status() == "True";
}

void remove_condition(ConditionList& conditions, std::string_view type) {
  for (int i = conditions.size() - 1; i >= 0; --i) {
    if (conditions.Get(i).type() == type) conditions.DeleteSubrange(i, 1);
  }
}

bool set_condition(ConditionList& conditions, std::string_view type, bool status, std::string_view reason,
                   std::string_view message, int64_t now_ms) {
  protocol::KatibCondition made;
  made.set_type(std::string(type));
  made.set_status(status ? "True" : "False");
  made.set_reason(std::string(reason));
  made.set_message(std::string(message));
  made.set_changed_ms(now_ms);
  made.set_updated_ms(now_ms);
  if (const auto* known = find_condition(conditions, type)) {
    if (known->status() == made.status()) {
      if (known->reason() == reason && known->message() == message) return false;
      made.set_changed_ms(known->changed_ms());
    }
  }
  remove_condition(conditions, type);
  *conditions.Add() = std::move(made);
  return true;
}

bool is_complete(const protocol::KatibResourceRecord& record) {
  return has_condition(record.conditions(), "Succeeded") || has_condition(record.conditions(), "Failed") ||
         has_condition(record.conditions(), "Complete");
}

bool goes_on(std::string_view state) { return state == "ACTIVE" || state == "PAUSED"; }

void set_end(ConditionList& conditions, std::string_view type, std::string_view reason, std::string_view message,
             int64_t now_ms) {
  if (const auto* running = find_condition(conditions, "Running")) {
    const protocol::KatibCondition was = *running;
    set_condition(conditions, "Running", false, was.reason(), was.message(), now_ms);
  }
  set_condition(conditions, type, true, reason, message, now_ms);
}

// ---- Trials ----

std::string_view to_string(TrialCondition condition) { return kConditionNames[static_cast<size_t>(condition)]; }

TrialCondition condition_of(const protocol::KatibTrialRecord& trial) {
  const auto found = std::ranges::find(kConditionNames, std::string_view(trial.state()));
  return found == kConditionNames.end() ? TrialCondition::kCreated
                                        : static_cast<TrialCondition>(found - kConditionNames.begin());
}

bool is_end(TrialCondition condition) {
  return condition != TrialCondition::kCreated && condition != TrialCondition::kRunning;
}

std::string text_of(const protocol::KatibMetric& metric, MetricStrategy strategy) {
  return strategy == MetricStrategy::kMin   ? metric.min()
         : strategy == MetricStrategy::kMax ? metric.max()
                                            : metric.latest();
}

std::optional<double> value_of(const protocol::KatibMetric& metric, MetricStrategy strategy) {
  const std::string text = text_of(metric, strategy);
  if (text.empty() || text == kUnavailable) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size() || std::isnan(value)) return std::nullopt;
  return value;
}

MetricStrategy strategy_of(const Objective& objective, const std::string& metric) {
  const auto found = objective.strategies.find(metric);
  if (found != objective.strategies.end()) return found->second;
  return objective.maximize ? MetricStrategy::kMax : MetricStrategy::kMin;
}

std::optional<double> objective_of(const Objective& objective, const protocol::KatibTrialRecord& trial) {
  for (const protocol::KatibMetric& metric : trial.observation()) {
    if (metric.name() == objective.metric) return value_of(metric, strategy_of(objective, metric.name()));
  }
  return std::nullopt;
}

bool is_better(const Objective& objective, double value, double than) {
  return objective.maximize ? value > than : value < than;
}

// ---- Experiments ----

int64_t TrialCounts::ended() const {
  int64_t sum = 0;
  for (size_t i = 0; i < kTrialConditions; ++i) {
    if (is_end(static_cast<TrialCondition>(i))) sum += by_condition[i];
  }
  return sum;
}

int64_t wanted_trials(const ExperimentSpec& spec, const TrialCounts& counts) {
  if (!spec.max_trials) return spec.parallel_trials;
  return std::clamp<int64_t>(*spec.max_trials - counts.ended(), 0, spec.parallel_trials);
}

std::optional<ExperimentEnd> end_of(const ExperimentSpec& spec, const TrialCounts& counts, std::optional<double> best,
                                    bool exhausted) {
  const Objective& objective = spec.objective;
  if (best && objective.goal && !is_better(objective, *objective.goal, *best)) {
    return ExperimentEnd{.reason = "ExperimentGoalReached",
                         .message = "Experiment has succeeded because Objective goal has reached"};
  }
  const int64_t failed = counts.of(TrialCondition::kFailed) + counts.of(TrialCondition::kMetricsUnavailable);
  if (spec.max_failed_trials && failed > 0 && failed >= *spec.max_failed_trials) {
    return ExperimentEnd{.failed = true,
                         .reason = "ExperimentFailed",
                         .message = "Experiment has failed because max failed count has reached"};
  }
  if (spec.max_trials && counts.ended() >= *spec.max_trials) {
    return ExperimentEnd{.reason = kMaxTrialsReached,
                         .message = "Experiment has succeeded because max trial count has reached"};
  }
  if (exhausted && counts.active() == 0) {
    return ExperimentEnd{.reason = "ExperimentSuggestionEndReached",
                         .message = "Experiment has succeeded because suggestion service has reached the end"};
  }
  return std::nullopt;
}

}  // namespace volador::experiments::katib
