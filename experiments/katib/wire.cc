#include "experiments/katib/wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace volador::experiments::katib {
namespace {

namespace wire = api::v1::beta1;

int32_t count_on_wire(int64_t count) {
  return static_cast<int32_t>(std::clamp<int64_t>(count, 0, std::numeric_limits<int32_t>::max()));
}

wire::ParameterType to_wire(ParameterKind kind) {
  switch (kind) {
    case ParameterKind::kDouble:
      return wire::DOUBLE;
    case ParameterKind::kInt:
      return wire::INT;
    case ParameterKind::kDiscrete:
      return wire::DISCRETE;
    case ParameterKind::kCategorical:
      return wire::CATEGORICAL;
  }
  return wire::UNKNOWN_TYPE;
}

wire::Distribution to_wire(Distribution distribution) {
  switch (distribution) {
    case Distribution::kUniform:
      return wire::UNIFORM;
    case Distribution::kLogUniform:
      return wire::LOG_UNIFORM;
    case Distribution::kNormal:
      return wire::NORMAL;
    case Distribution::kLogNormal:
      return wire::LOG_NORMAL;
  }
  return wire::DISTRIBUTION_UNSPECIFIED;
}

void to_wire(const Parameter& parameter, wire::ParameterSpec& out) {
  out.set_name(parameter.name);
  out.set_parameter_type(to_wire(parameter.kind));
  wire::FeasibleSpace& space = *out.mutable_feasible_space();
  space.set_min(parameter.min);
  space.set_max(parameter.max);
  space.set_step(parameter.step);
  for (const std::string& value : parameter.list) space.add_list(value);
  const bool is_range = parameter.kind == ParameterKind::kDouble || parameter.kind == ParameterKind::kInt;
  if (is_range) space.set_distribution(to_wire(parameter.distribution));
}

Distribution from_wire(wire::Distribution distribution) {
  if (distribution == wire::LOG_UNIFORM) return Distribution::kLogUniform;
  if (distribution == wire::NORMAL) return Distribution::kNormal;
  if (distribution == wire::LOG_NORMAL) return Distribution::kLogNormal;
  return Distribution::kUniform;
}

Result<Parameter> from_wire(const wire::ParameterSpec& given) {
  Parameter parameter;
  parameter.name = given.name();
  switch (given.parameter_type()) {
    case wire::DOUBLE:
      parameter.kind = ParameterKind::kDouble;
      break;
    case wire::INT:
      parameter.kind = ParameterKind::kInt;
      break;
    case wire::DISCRETE:
      parameter.kind = ParameterKind::kDiscrete;
      break;
    case wire::CATEGORICAL:
      parameter.kind = ParameterKind::kCategorical;
      break;
    default:
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("parameter {}: expected a type of DOUBLE, INT, DISCRETE or CATEGORICAL, got {}",
                                    given.name(), static_cast<int>(given.parameter_type())));
  }
  const wire::FeasibleSpace& space = given.feasible_space();
  parameter.min = space.min();
  parameter.max = space.max();
  parameter.step = space.step();
  parameter.list.assign(space.list().begin(), space.list().end());
  parameter.distribution = from_wire(space.distribution());
  return parameter;
}

template <class Specs>
Result<std::vector<Parameter>> parameters_from_wire(const Specs& given) {
  std::vector<Parameter> parameters;
  for (const wire::ParameterSpec& one : given) {
    auto parameter = from_wire(one);
    if (!parameter) return make_error(parameter.error());
    parameters.push_back(std::move(*parameter));
  }
  return parameters;
}

template <class Spec>
Algorithm algorithm_from_wire(const Spec& given) {
  Algorithm algorithm;
  algorithm.name = given.algorithm_name();
  for (const auto& setting : given.algorithm_settings())
    algorithm.settings.push_back({setting.name(), setting.value()});
  return algorithm;
}

template <class Spec>
Spec algorithm_to_wire(const Algorithm& algorithm) {
  Spec out;
  out.set_algorithm_name(algorithm.name);
  for (const Setting& setting : algorithm.settings) {
    auto& added = *out.add_algorithm_settings();
    added.set_name(setting.name);
    added.set_value(setting.value);
  }
  return out;
}

Result<Objective> from_wire(const wire::ObjectiveSpec& given) {
  Objective objective;
  if (given.type() != wire::MINIMIZE && given.type() != wire::MAXIMIZE) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("objective: expected the type MINIMIZE or MAXIMIZE, got {}", static_cast<int>(given.type())));
  }
  objective.maximize = given.type() == wire::MAXIMIZE;
  if (given.goal() != 0) objective.goal = given.goal();
  objective.metric = given.objective_metric_name();
  objective.additional_metrics.assign(given.additional_metric_names().begin(), given.additional_metric_names().end());
  const MetricStrategy strategy = objective.maximize ? MetricStrategy::kMax : MetricStrategy::kMin;
  objective.strategies[objective.metric] = strategy;
  for (const std::string& metric : objective.additional_metrics) objective.strategies[metric] = strategy;
  return objective;
}

}  // namespace

wire::ObjectiveSpec to_wire(const Objective& objective) {
  wire::ObjectiveSpec out;
  out.set_type(objective.maximize ? wire::MAXIMIZE : wire::MINIMIZE);
  out.set_goal(objective.goal.value_or(0));
  out.set_objective_metric_name(objective.metric);
  for (const std::string& metric : objective.additional_metrics) out.add_additional_metric_names(metric);
  return out;
}

wire::AlgorithmSpec to_wire(const Algorithm& algorithm) { return algorithm_to_wire<wire::AlgorithmSpec>(algorithm); }

wire::EarlyStoppingSpec early_stopping_to_wire(const Algorithm& algorithm) {
  return algorithm_to_wire<wire::EarlyStoppingSpec>(algorithm);
}

wire::Experiment to_wire(const std::string& name, const ExperimentSpec& spec) {
  wire::Experiment out;
  out.set_name(name);
  wire::ExperimentSpec& to = *out.mutable_spec();
  if (!spec.nas) to.mutable_parameter_specs();
  for (const Parameter& parameter : spec.parameters)
    to_wire(parameter, *to.mutable_parameter_specs()->add_parameters());
  *to.mutable_objective() = to_wire(spec.objective);
  *to.mutable_algorithm() = to_wire(spec.algorithm);
  if (!spec.early_stopping.name.empty()) *to.mutable_early_stopping() = early_stopping_to_wire(spec.early_stopping);
  to.set_parallel_trial_count(count_on_wire(spec.parallel_trials));
  to.set_max_trial_count(count_on_wire(spec.max_trials.value_or(0)));
  if (!spec.nas) return out;
  wire::NasConfig& nas = *to.mutable_nas_config();
  nas.mutable_graph_config()->set_num_layers(count_on_wire(spec.nas->layers));
  for (const int64_t size : spec.nas->input_sizes) nas.mutable_graph_config()->add_input_sizes(count_on_wire(size));
  for (const int64_t size : spec.nas->output_sizes) nas.mutable_graph_config()->add_output_sizes(count_on_wire(size));
  for (const NasOperation& operation : spec.nas->operations) {
    wire::Operation& added = *nas.mutable_operations()->add_operation();
    added.set_operation_type(operation.type);
    for (const Parameter& parameter : operation.parameters)
      to_wire(parameter, *added.mutable_parameter_specs()->add_parameters());
  }
  return out;
}

Result<ExperimentSpec> from_wire(const wire::ExperimentSpec& spec) {
  ExperimentSpec out;
  auto objective = from_wire(spec.objective());
  if (!objective) return make_error(objective.error());
  out.objective = std::move(*objective);
  out.algorithm = algorithm_from_wire(spec.algorithm());
  out.early_stopping = algorithm_from_wire(spec.early_stopping());
  if (spec.parallel_trial_count() > 0) out.parallel_trials = spec.parallel_trial_count();
  if (spec.max_trial_count() > 0) out.max_trials = spec.max_trial_count();
  auto parameters = parameters_from_wire(spec.parameter_specs().parameters());
  if (!parameters) return make_error(parameters.error());
  out.parameters = std::move(*parameters);
  if (!spec.has_nas_config()) return out;
  NasConfig nas;
  const wire::GraphConfig& graph = spec.nas_config().graph_config();
  nas.layers = graph.num_layers();
  nas.input_sizes.assign(graph.input_sizes().begin(), graph.input_sizes().end());
  nas.output_sizes.assign(graph.output_sizes().begin(), graph.output_sizes().end());
  for (const wire::Operation& operation : spec.nas_config().operations().operation()) {
    auto below = parameters_from_wire(operation.parameter_specs().parameters());
    if (!below) return make_error(below.error());
    nas.operations.push_back({operation.operation_type(), std::move(*below)});
  }
  out.nas = std::move(nas);
  return out;
}

}  // namespace volador::experiments::katib
