// Requests for suggestions, as a client of Katib's API makes them, and the answers of its trials.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "experiments/katib/own_suggestions.h"

namespace volador::experiments::katib {

namespace wire = ::api::v1::beta1;

inline wire::ParameterSpec& add_parameter(wire::Experiment& experiment, const std::string& name,
                                          wire::ParameterType type) {
  auto& parameter = *experiment.mutable_spec()->mutable_parameter_specs()->add_parameters();
  parameter.set_name(name);
  parameter.set_parameter_type(type);
  return parameter;
}
inline wire::ParameterSpec& add_range(wire::Experiment& experiment, const std::string& name, wire::ParameterType type,
                                      const std::string& min, const std::string& max, const std::string& step = "") {
  auto& parameter = add_parameter(experiment, name, type);
  parameter.mutable_feasible_space()->set_min(min);
  parameter.mutable_feasible_space()->set_max(max);
  parameter.mutable_feasible_space()->set_step(step);
  return parameter;
}
inline wire::ParameterSpec& add_list(wire::Experiment& experiment, const std::string& name, wire::ParameterType type,
                                     const std::vector<std::string>& values) {
  auto& parameter = add_parameter(experiment, name, type);
  for (const std::string& value : values) parameter.mutable_feasible_space()->add_list(value);
  return parameter;
}

inline wire::Experiment experiment_of(const std::string& algorithm,
                                      const std::vector<std::pair<std::string, std::string>>& settings = {}) {
  wire::Experiment experiment;
  experiment.set_name("digits");
  auto& spec = *experiment.mutable_spec();
  spec.mutable_objective()->set_type(wire::MINIMIZE);
  spec.mutable_objective()->set_objective_metric_name("loss");
  spec.mutable_algorithm()->set_algorithm_name(algorithm);
  for (const auto& [name, value] : settings) {
    auto& one = *spec.mutable_algorithm()->add_algorithm_settings();
    one.set_name(name);
    one.set_value(value);
  }
  return experiment;
}

using Values = std::map<std::string, std::string>;
inline Values assigned_to(const wire::Trial& trial) {
  Values out;
  for (const auto& one : trial.spec().parameter_assignments().assignments()) out[one.name()] = one.value();
  return out;
}

// The trials of an experiment, as its controller keeps them.
class SuggestionClient {
 public:
  explicit SuggestionClient(wire::Experiment experiment) { request_.mutable_experiment()->CopyFrom(experiment); }

  // Asks for trials and starts them; returns how many came.
  int ask(int count) {
    request_.set_current_request_number(count);
    request_.set_total_request_number(request_.trials_size() + count);
    const auto reply = OwnSuggestions().suggest(request_);
    if (!reply) {
      error = reply.error().message;
      return -1;
    }
    for (const auto& made : reply->parameter_assignments()) {
      auto& trial = *request_.add_trials();
      trial.set_name("digits-" + std::to_string(request_.trials_size()));
      for (const auto& one : made.assignments()) {
        *trial.mutable_spec()->mutable_parameter_assignments()->add_assignments() = one;
      }
      *trial.mutable_spec()->mutable_labels() = made.labels();
      trial.mutable_status()->set_condition(wire::TrialStatus::RUNNING);
    }
    return reply->parameter_assignments_size();
  }
  wire::Trial& trial(int index) { return *request_.mutable_trials(index); }
  int size() const { return request_.trials_size(); }
  void end(int index, double value, wire::TrialStatus::TrialConditionType as = wire::TrialStatus::SUCCEEDED) {
    trial(index).mutable_status()->set_condition(as);
    auto& metric = *trial(index).mutable_status()->mutable_observation()->add_metrics();
    metric.set_name("loss");
    metric.set_value(std::to_string(value));
  }
  // Ends all trials that run, with the value of the function.
  void end_all(const std::function<double(const Values&)>& loss) {
    for (int i = 0; i < size(); ++i) {
      if (trial(i).status().condition() == wire::TrialStatus::RUNNING) end(i, loss(assigned_to(trial(i))));
    }
  }
  wire::GetSuggestionsRequest& request() { return request_; }

  std::string error;  // Why the last request was refused.

 private:
  wire::GetSuggestionsRequest request_;
};

}  // namespace volador::experiments::katib
