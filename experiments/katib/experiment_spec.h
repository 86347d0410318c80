// A resource of kind Experiment of Katib as C++ types: every value is valid, every default is filled in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/yaml/value.h"

namespace volador::experiments::katib {

enum class MetricStrategy : uint8_t { kMin, kMax, kLatest };

struct Objective {
  bool maximize = false;
  std::optional<double> goal;
  std::string metric;
  std::vector<std::string> additional_metrics;
  std::map<std::string, MetricStrategy> strategies;  // Those of the objective and of all additional metrics.
};

struct Setting {
  std::string name, value;
  bool operator==(const Setting&) const = default;
};
struct Algorithm {
  std::string name;  // "bayesianoptimization". Empty for early stopping: none.
  std::vector<Setting> settings;
  yaml::Place place;
};

enum class ParameterKind : uint8_t { kDouble, kInt, kDiscrete, kCategorical };
enum class Distribution : uint8_t { kUniform, kLogUniform, kNormal, kLogNormal };
struct Parameter {
  std::string name;
  ParameterKind kind = ParameterKind::kDouble;
  std::string min, max, step;     // As written; for double and int, step may be empty.
  std::vector<std::string> list;  // For discrete and categorical.
  Distribution distribution = Distribution::kUniform;
  yaml::Place place;
};

struct NasOperation {
  std::string type;
  std::vector<Parameter> parameters;
};
struct NasConfig {
  int64_t layers = 0;
  std::vector<int64_t> input_sizes, output_sizes;
  std::vector<NasOperation> operations;
};

enum class CollectorKind : uint8_t { kStdOut, kFile, kTensorFlowEvent, kPrometheus, kCustom, kPush, kNone };
struct Collector {
  CollectorKind kind = CollectorKind::kStdOut;
  std::string path;                  // File, folder of events, or path of the HTTP request.
  bool is_json = false;              // Format of a file; otherwise text.
  std::vector<std::string> formats;  // Regular expressions of text lines: name and value are their first two groups.
  int port = 8080;                   // Prometheus.
  std::vector<std::string> command;  // Custom: the command and arguments of its container.
};

struct TrialParameter {
  std::string name, description, reference;
  yaml::Place place;
};
struct TrialTemplate {
  bool retain = false;
  std::string primary_container;
  std::map<std::string, std::string>
      primary_labels;  // The replica whose output counts, as "training.kubeflow.org/replica-type": "master".
  std::string success_condition, failure_condition;
  std::vector<TrialParameter> parameters;
  yaml::Value trial_spec;  // With placeholders.
};

enum class ResumePolicy : uint8_t { kNever, kLongRunning, kFromVolume };

struct ExperimentSpec {
  Objective objective;
  Algorithm algorithm, early_stopping;
  int64_t parallel_trials = 3;
  std::optional<int64_t> max_trials, max_failed_trials;
  ResumePolicy resume = ResumePolicy::kNever;
  std::vector<Parameter> parameters;
  std::optional<NasConfig> nas;
  Collector collector;
  TrialTemplate trial_template;
};

// metadata of any resource.
struct Metadata {
  std::string name, name_space = "default";
  std::map<std::string, std::string> labels, annotations;
};

// A resource of a file: an Experiment, or a training job.
struct Resource {
  std::string api_version;  // "kubeflow.org/v1beta1".
  std::string kind;         // "Experiment", "Job", "PyTorchJob", "TFJob", "MPIJob", "TrainJob".
  Metadata metadata;
  yaml::Value object;                        // With defaults, without status.
  std::optional<ExperimentSpec> experiment;  // For kind Experiment.
};

// Values of the parameters of one trial, as text.
using Assignments = std::vector<Setting>;

}  // namespace volador::experiments::katib
