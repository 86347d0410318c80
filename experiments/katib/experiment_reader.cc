#include "experiments/katib/experiment_reader.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "experiments/katib/resource_kind.h"
#include "experiments/katib/training_job.h"
#include "experiments/katib/trial_template.h"

namespace volador::experiments::katib {
namespace {

using yaml::Entry;
using yaml::Value;

constexpr int64_t kTrialsMax = 1'000'000;
constexpr int64_t kLayersMax = 10'000;
constexpr std::string_view kMetricsFile = "/var/log/katib/metrics.log";
constexpr std::string_view kEventFolder = "/var/log/katib/tfevent/";
constexpr std::string_view kMetricsPath = "/metrics";

std::optional<double> real_of(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, value);
  return failed == std::errc() && stop == end && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> whole_of(const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, value);
  return failed == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

std::string_view name_of(MetricStrategy strategy) {
  return strategy == MetricStrategy::kMin ? "min" : strategy == MetricStrategy::kMax ? "max" : "latest";
}

std::string_view name_of(ResumePolicy policy) {
  return policy == ResumePolicy::kLongRunning  ? "LongRunning"
         : policy == ResumePolicy::kFromVolume ? "FromVolume"
                                               : "Never";
}

std::string_view name_of(CollectorKind kind) {
  switch (kind) {
    case CollectorKind::kStdOut:
      return "StdOut";
    case CollectorKind::kFile:
      return "File";
    case CollectorKind::kTensorFlowEvent:
      return "TensorFlowEvent";
    case CollectorKind::kPrometheus:
      return "PrometheusMetric";
    case CollectorKind::kCustom:
      return "Custom";
    case CollectorKind::kPush:
      return "Push";
    case CollectorKind::kNone:
      return "None";
  }
  return "";
}

class SpecReader {
 public:
  SpecReader(ObjectFields& fields, Findings& findings) : fields_(fields), findings_(findings) {}

  ExperimentSpec read() {
    read_objective();
    spec_.algorithm = read_algorithm("algorithm");
    if (fields_.take("algorithm") == nullptr) fields_.require("algorithm", "{algorithmName: random}");
    spec_.early_stopping = read_algorithm("earlyStopping");
    read_counts();
    read_resume_policy();
    read_space();
    read_collector();
    read_template();
    fields_.finish();
    return std::move(spec_);
  }

 private:
  void read_objective() {
    ObjectFields objective = fields_.object("objective");
    if (!objective.is_given()) {
      if (fields_.take("objective") == nullptr)
        fields_.require("objective", "{type: maximize, objectiveMetricName: accuracy}");
      return;
    }
    Objective& out = spec_.objective;
    const auto type = objective.one_of("type", {"minimize", "maximize"});
    if (objective.take("type") == nullptr) objective.require("type", "minimize or maximize");
    out.maximize = type == "maximize";
    out.goal = objective.number("goal");
    out.metric = objective.text("objectiveMetricName").value_or("");
    if (out.metric.empty() && !findings_.has_error_at(objective.path("objectiveMetricName")))
      objective.require("objectiveMetricName", "the name of the metric as the trials print it");
    read_additional_metrics(objective);
    read_strategies(objective);
    objective.finish();
  }

  void read_additional_metrics(ObjectFields& objective) {
    Objective& out = spec_.objective;
    out.additional_metrics = objective.texts("additionalMetricNames");
    std::set<std::string> seen;
    for (size_t i = 0; i < out.additional_metrics.size(); ++i) {
      const std::string& name = out.additional_metrics[i];
      const Value& list = *objective.take("additionalMetricNames");
      const Value& item = list.items.size() == out.additional_metrics.size() ? list.items[i] : list;
      const std::string path = path_of_item(objective.path("additionalMetricNames"), i);
      if (name.empty()) findings_.error(path, item.place, "expected the name of a metric, got \"\"");
      if (name == out.metric && !name.empty())
        findings_.error(path, item.place, fmt::format("{} is the metric of the objective already; remove it", name));
      if (!seen.insert(name).second)
        findings_.error(path, item.place, fmt::format("{} is given twice; remove one of them", name));
    }
  }

  void read_strategies(ObjectFields& objective) {
    Objective& out = spec_.objective;
    const MetricStrategy usual = out.maximize ? MetricStrategy::kMax : MetricStrategy::kMin;
    out.strategies[out.metric] = usual;
    for (const std::string& name : out.additional_metrics) out.strategies[name] = usual;
    std::set<std::string> seen;
    objective.each("metricStrategies", [&](const Value& item, const std::string& path) {
      ObjectFields one(&item, path, findings_);
      const auto name = one.text("name");
      const auto value = one.one_of("value", {"min", "max", "latest"});
      if (one.is_given() && one.take("name") == nullptr) one.require("name");
      if (one.is_given() && one.take("value") == nullptr) one.require("value", "min, max or latest");
      one.finish();
      if (!name) return;
      if (!out.strategies.contains(*name)) {
        one.error("name", one.take("name"),
                  fmt::format("expected the objective or an additional metric, got \"{}\"", *name));
      } else if (!seen.insert(*name).second) {
        one.error("name", one.take("name"), fmt::format("{} is given twice; remove one of them", *name));
      } else if (value) {
        out.strategies[*name] = *value == "min"   ? MetricStrategy::kMin
                                : *value == "max" ? MetricStrategy::kMax
                                                  : MetricStrategy::kLatest;
      }
    });
  }

  Algorithm read_algorithm(std::string_view key) {
    Algorithm out;
    ObjectFields algorithm = fields_.object(key);
    if (!algorithm.is_given()) return out;
    out.place = algorithm.place();
    out.name = algorithm.text("algorithmName").value_or("");
    if (out.name.empty() && !findings_.has_error_at(algorithm.path("algorithmName")))
      algorithm.require("algorithmName", key == "algorithm" ? "such as random or bayesianoptimization" : "medianstop");
    std::set<std::string> seen;
    algorithm.each("algorithmSettings", [&](const Value& item, const std::string& path) {
      ObjectFields one(&item, path, findings_);
      const auto name = one.text("name");
      const auto value = one.text("value");
      if (one.is_given() && (one.take("name") == nullptr || name == "")) one.require("name");
      if (one.is_given() && one.take("value") == nullptr) one.require("value", "as a text in quotes");
      one.finish();
      if (!name || !value) return;
      if (!seen.insert(*name).second)
        one.error("name", one.take("name"), fmt::format("{} is given twice; remove one of them", *name));
      out.settings.push_back({*name, *value});
    });
    algorithm.finish();
    return out;
  }

  void read_counts() {
    spec_.max_trials = fields_.whole_number("maxTrialCount", 1, kTrialsMax);
    spec_.max_failed_trials = fields_.whole_number("maxFailedTrialCount", 0, kTrialsMax);
    const auto parallel = fields_.whole_number("parallelTrialCount", 1, kTrialsMax);
    if (parallel) spec_.parallel_trials = *parallel;
    if (!spec_.max_trials) return;
    const auto above = [&](std::string_view key, int64_t count) {
      if (count <= *spec_.max_trials) return;
      fields_.error(key, fields_.take(key),
                    fmt::format("expected at most maxTrialCount ({}), got {}", *spec_.max_trials, count));
    };
    // The default is at most the maximum.
    if (parallel) above("parallelTrialCount", *parallel);
    spec_.parallel_trials = std::min(spec_.parallel_trials, *spec_.max_trials);
    if (spec_.max_failed_trials) above("maxFailedTrialCount", *spec_.max_failed_trials);
  }

  void read_resume_policy() {
    const auto policy = fields_.one_of("resumePolicy", {"Never", "LongRunning", "FromVolume"});
    if (policy == "LongRunning") spec_.resume = ResumePolicy::kLongRunning;
    if (policy == "FromVolume") spec_.resume = ResumePolicy::kFromVolume;
  }

  void read_space() {
    const Value* parameters = fields_.take("parameters");
    const Value* nas = fields_.take("nasConfig");
    if (parameters != nullptr) spec_.parameters = read_parameters(fields_, "parameters");
    if (nas != nullptr) read_nas();
    if (parameters != nullptr && nas != nullptr)
      fields_.error("nasConfig", nas, "an experiment has either parameters or nasConfig; remove one of them");
    if (parameters == nullptr && nas == nullptr) fields_.require("parameters", "add the parameters of the search");
    const bool is_empty = parameters != nullptr && parameters->is_list() && parameters->items.empty();
    if (is_empty) fields_.error("parameters", parameters, "expected at least one parameter, got an empty list");
  }

  std::vector<Parameter> read_parameters(ObjectFields& fields, std::string_view key) {
    std::vector<Parameter> out;
    std::set<std::string> seen;
    fields.each(key, [&](const Value& item, const std::string& path) {
      ObjectFields one(&item, path, findings_);
      Parameter parameter;
      parameter.place = item.place;
      parameter.name = one.text("name").value_or("");
      if (one.is_given() && parameter.name.empty() && !findings_.has_error_at(one.path("name"))) one.require("name");
      if (!parameter.name.empty() && !seen.insert(parameter.name).second)
        one.error("name", one.take("name"), fmt::format("{} is given twice; remove one of them", parameter.name));
      const auto type = one.one_of("parameterType", {"double", "int", "discrete", "categorical"});
      if (one.is_given() && one.take("parameterType") == nullptr)
        one.require("parameterType", "double, int, discrete or categorical");
      if (type) {
        parameter.kind = *type == "double"     ? ParameterKind::kDouble
                         : *type == "int"      ? ParameterKind::kInt
                         : *type == "discrete" ? ParameterKind::kDiscrete
                                               : ParameterKind::kCategorical;
      }
      ObjectFields space = one.object("feasibleSpace");
      if (one.is_given() && one.take("feasibleSpace") == nullptr) {
        one.require("feasibleSpace", type && (*type == "discrete" || *type == "categorical") ? "with a list of values"
                                                                                             : "with min and max");
      }
      if (space.is_given()) read_space_of(space, type.value_or(""), parameter);
      one.finish();
      out.push_back(std::move(parameter));
    });
    return out;
  }

  void read_space_of(ObjectFields& space, const std::string& type, Parameter& parameter) {
    parameter.min = space.text("min").value_or("");
    parameter.max = space.text("max").value_or("");
    parameter.step = space.text("step").value_or("");
    parameter.list = space.texts("list");
    const auto distribution = space.one_of("distribution", {"uniform", "logUniform", "normal", "logNormal"});
    if (distribution == "logUniform") parameter.distribution = Distribution::kLogUniform;
    if (distribution == "normal") parameter.distribution = Distribution::kNormal;
    if (distribution == "logNormal") parameter.distribution = Distribution::kLogNormal;
    space.finish();
    if (type.empty()) return;
    if (type == "double" || type == "int") {
      check_range(space, type, parameter);
    } else {
      check_list(space, type);
    }
  }

  void check_range(ObjectFields& space, const std::string& type, const Parameter& parameter) {
    if (const Value* list = space.take("list"))
      space.error("list", list, fmt::format("a parameter of type {} has min and max, not a list; remove it", type));
    std::optional<double> low, high, step;
    const auto read = [&](std::string_view key, const std::string& text, std::optional<double>& number) {
      const Value* value = space.take(key);
      if (value == nullptr || !value->is_text()) return;
      number = type == "int" ? std::optional<double>() : real_of(text);
      if (type == "int") {
        if (const auto whole = whole_of(text)) number = static_cast<double>(*whole);
      }
      if (!number)
        space.error(
            key, value,
            fmt::format("expected a {} in quotes, got {}", type == "int" ? "whole number" : "number", shown(*value)));
    };
    read("min", parameter.min, low);
    read("max", parameter.max, high);
    read("step", parameter.step, step);
    for (const char* key : {"min", "max"})
      if (space.take(key) == nullptr)
        space.require(key, fmt::format("a parameter of type {} has min and max, as texts in quotes", type));
    if (low && high && *low >= *high) {
      space.error("min", space.take("min"),
                  fmt::format("expected less than max ({}), got {}", parameter.max, parameter.min));
    }
    if (step && *step <= 0)
      space.error("step", space.take("step"), fmt::format("expected a number above 0, got {}", parameter.step));
    if (step && *step > 0 && low && high && *low<*high&& * step> * high - *low) {
      space.error("step", space.take("step"),
                  fmt::format("expected at most max - min ({}), got {}", *high - *low, parameter.step));
    }
    const bool is_log =
        parameter.distribution == Distribution::kLogUniform || parameter.distribution == Distribution::kLogNormal;
    if (is_log && low && *low <= 0) {
      space.error("min", space.take("min"),
                  fmt::format("expected a number above 0 for the distribution {}, got {}",
                              space.text("distribution").value_or(""), parameter.min));
    }
  }

  void check_list(ObjectFields& space, const std::string& type) {
    for (const char* key : {"min", "max", "step"}) {
      const Value* value = space.take(key);
      if (value != nullptr)
        space.error(key, value,
                    fmt::format("a parameter of type {} has a list of values, no {}; remove it", type, key));
    }
    if (const Value* value = space.take("distribution"))
      space.error("distribution", value, fmt::format("only parameters of type double and int have it, not {}", type));
    const Value* list = space.take("list");
    if (list == nullptr) {
      space.require("list", fmt::format("the values of a parameter of type {}, as texts in quotes", type));
      return;
    }
    if (!list->is_list()) return;
    if (list->items.empty()) space.error("list", list, "expected at least one value, got an empty list");
    std::set<std::string> seen;
    for (size_t i = 0; i < list->items.size(); ++i) {
      const Value& item = list->items[i];
      if (!item.is_text()) continue;
      const std::string path = path_of_item(space.path("list"), i);
      if (type == "discrete" && !real_of(item.text))
        findings_.error(path, item.place, fmt::format("expected a number in quotes, got {}", shown(item)));
      if (!seen.insert(item.text).second)
        findings_.error(path, item.place, fmt::format("{} is given twice; remove one of them", shown(item)));
    }
  }

  std::vector<int64_t> read_sizes(ObjectFields& graph, std::string_view key) {
    std::vector<int64_t> sizes;
    graph.each(key, [&](const Value& item, const std::string& path) {
      if (item.kind == yaml::Kind::kInteger && item.integer > 0 &&
          item.integer <= std::numeric_limits<int32_t>::max()) {
        sizes.push_back(item.integer);
      } else {
        findings_.error(path, item.place, fmt::format("expected a whole number of at least 1, got {}", shown(item)));
      }
    });
    // Katib's own examples of darts, which does not use them, leave them out.
    if (graph.take(key) == nullptr && spec_.algorithm.name != "darts") graph.require(key, "a list of whole numbers");
    return sizes;
  }

  void read_nas() {
    NasConfig nas;
    ObjectFields fields = fields_.object("nasConfig");
    if (!fields.is_given()) return;
    ObjectFields graph = fields.object("graphConfig");
    if (graph.is_given()) {
      nas.layers = graph.whole_number("numLayers", 1, kLayersMax).value_or(0);
      if (graph.take("numLayers") == nullptr) graph.require("numLayers");
      nas.input_sizes = read_sizes(graph, "inputSizes");
      nas.output_sizes = read_sizes(graph, "outputSizes");
      graph.finish();
    } else if (fields.take("graphConfig") == nullptr) {
      fields.require("graphConfig", "{numLayers: 8, inputSizes: [32, 32, 3], outputSizes: [10]}");
    }
    fields.each("operations", [&](const Value& item, const std::string& path) {
      ObjectFields one(&item, path, findings_);
      NasOperation operation;
      operation.type = one.text("operationType").value_or("");
      if (one.is_given() && operation.type.empty()) one.require("operationType");
      operation.parameters = read_parameters(one, "parameters");
      one.finish();
      nas.operations.push_back(std::move(operation));
    });
    if (nas.operations.empty() && !findings_.has_error_at(fields.path("operations")))
      fields.require("operations", "add at least one operation");
    fields.finish();
    spec_.nas = std::move(nas);
  }

  // ---- metrics ----

  void read_collector() {
    Collector& out = spec_.collector;
    if (fields_.take("metricsCollectorSpec") == nullptr) return;
    ObjectFields collector_spec = fields_.object("metricsCollectorSpec");
    ObjectFields collector = collector_spec.object("collector");
    const auto kind =
        collector.one_of("kind", {"StdOut", "File", "TensorFlowEvent", "PrometheusMetric", "Custom", "Push", "None"});
    if (kind) {
      for (const CollectorKind one :
           {CollectorKind::kStdOut, CollectorKind::kFile, CollectorKind::kTensorFlowEvent, CollectorKind::kPrometheus,
            CollectorKind::kCustom, CollectorKind::kPush, CollectorKind::kNone})
        if (name_of(one) == *kind) out.kind = one;
    }
    read_custom(collector);
    collector.finish();
    ObjectFields source = collector_spec.object("source");
    read_file_system_path(source);
    read_http_get(source);
    read_filter(source);
    source.finish();
    collector_spec.finish();
  }

  void read_custom(ObjectFields& collector) {
    const Value* given = collector.take("customCollector");
    ObjectFields container = collector.object("customCollector");
    if (spec_.collector.kind != CollectorKind::kCustom) {
      if (given != nullptr)
        collector.error("customCollector", given, "only a collector of kind Custom has it; remove it");
      return;
    }
    if (given == nullptr) {
      collector.require("customCollector", "the container with the command that collects metrics");
      return;
    }
    for (const char* key : {"command", "args"})
      for (std::string& word : container.texts(key)) spec_.collector.command.push_back(std::move(word));
    if (container.is_given() && spec_.collector.command.empty())
      container.require("command", "no image provides one, so add the command that collects metrics");
    if (const Value* image = container.take("image"))
      findings_.warning(container.path("image"), image->place,
                        "images are not used: the command runs beside the trial, in the environment of its node");
    container.ignore(
        {"name", "imagePullPolicy", "env", "resources", "securityContext", "volumeMounts", "ports", "workingDir"});
    container.finish();
  }

  void read_file_system_path(ObjectFields& source) {
    Collector& out = spec_.collector;
    const bool is_folder = out.kind == CollectorKind::kTensorFlowEvent;
    if (out.kind == CollectorKind::kFile || out.kind == CollectorKind::kStdOut) out.path = kMetricsFile;
    if (is_folder) out.path = kEventFolder;
    const Value* given = source.take("fileSystemPath");
    if (given == nullptr) return;
    ObjectFields fields = source.object("fileSystemPath");
    const auto kind = fields.one_of("kind", {"File", "Directory"});
    const auto path = fields.text("path");
    const auto format = fields.one_of("format", {"TEXT", "JSON"});
    fields.finish();
    if (out.kind == CollectorKind::kPrometheus || out.kind == CollectorKind::kPush ||
        out.kind == CollectorKind::kNone) {
      source.error("fileSystemPath", given,
                   fmt::format("a collector of kind {} reads no file; remove it", name_of(out.kind)));
      return;
    }
    if (kind && out.kind != CollectorKind::kCustom && (*kind == "Directory") != is_folder) {
      fields.error("kind", fields.take("kind"),
                   fmt::format("expected {} for a collector of kind {}, got {}", is_folder ? "Directory" : "File",
                               name_of(out.kind), *kind));
    }
    if (path && !path->starts_with('/')) {
      fields.error("path", fields.take("path"), fmt::format("expected an absolute path, got \"{}\"", *path));
    } else if (path) {
      out.path = *path;
    }
    if (format && is_folder)
      fields.error("format", fields.take("format"), "a folder of events has no format; remove it");
    out.is_json = format == "JSON";
  }

  void read_http_get(ObjectFields& source) {
    Collector& out = spec_.collector;
    const bool is_prometheus = out.kind == CollectorKind::kPrometheus;
    if (is_prometheus) out.path = kMetricsPath;
    const Value* given = source.take("httpGet");
    if (given == nullptr) return;
    ObjectFields fields = source.object("httpGet");
    fields.ignore({"host", "scheme", "httpHeaders"});
    const auto port = fields.whole_number("port", 1, 65535);
    const auto path = fields.text("path");
    fields.finish();
    if (!is_prometheus) {
      source.error("httpGet", given, "only a collector of kind PrometheusMetric has it; remove it");
      return;
    }
    if (port) out.port = static_cast<int>(*port);
    if (path && !path->starts_with('/')) {
      fields.error("path", fields.take("path"), fmt::format("expected a path that begins with /, got \"{}\"", *path));
    } else if (path) {
      out.path = *path;
    }
  }

  void read_filter(ObjectFields& source) {
    Collector& out = spec_.collector;
    const Value* given = source.take("filter");
    if (given == nullptr) return;
    ObjectFields filter = source.object("filter");
    const std::vector<std::string> formats = filter.texts("metricsFormat");
    const Value* list = filter.take("metricsFormat");
    filter.finish();
    const bool reads_text =
        out.kind == CollectorKind::kStdOut || out.kind == CollectorKind::kFile || out.kind == CollectorKind::kCustom;
    if (!reads_text) {
      source.error("filter", given, fmt::format("a collector of kind {} reads no lines; remove it", name_of(out.kind)));
      return;
    }
    if (out.is_json) {
      source.error("filter", given, "must not be set together with the format JSON; remove one of them");
      return;
    }
    if (list == nullptr || (list->is_list() && list->items.empty())) {
      filter.error("metricsFormat", list, "expected at least one regular expression");
      return;
    }
    if (!list->is_list()) return;
    for (size_t i = 0; i < list->items.size(); ++i) {
      if (list->items[i].is_text()) check_format(list->items[i], path_of_item(filter.path("metricsFormat"), i));
    }
    out.formats = formats;
  }

  void check_format(const Value& format, const std::string& path) {
    const re2::RE2 expression(format.text, re2::RE2::Quiet);
    if (!expression.ok()) {
      findings_.error(path, format.place,
                      fmt::format("expected a regular expression, got {}: {}", shown(format), expression.error()));
    } else if (expression.NumberOfCapturingGroups() < 2) {
      findings_.error(path, format.place,
                      fmt::format("expected at least two groups, the name and the value of a metric, got {}: {}",
                                  expression.NumberOfCapturingGroups(), shown(format)));
    }
  }

  // ---- the trial ----

  void read_template() {
    TrialTemplate& out = spec_.trial_template;
    ObjectFields fields = fields_.object("trialTemplate");
    if (!fields.is_given()) {
      if (fields_.take("trialTemplate") == nullptr)
        fields_.require("trialTemplate", "with primaryContainerName, trialParameters and trialSpec");
      return;
    }
    out.retain = fields.boolean("retain").value_or(false);
    out.primary_container = fields.text("primaryContainerName").value_or("");
    out.primary_labels = fields.pairs("primaryPodLabels");
    const size_t errors = findings_.errors().size();
    read_trial_parameters(fields);
    const bool has_spec = read_trial_spec(fields);
    if (out.primary_container.empty() && !findings_.has_error_at(fields.path("primaryContainerName")))
      fields.require("primaryContainerName", "the name of the container that trains");
    if (has_spec) {
      std::vector<std::string> names;
      for (const Parameter& parameter : spec_.parameters) names.push_back(parameter.name);
      check_template(out, names, fields.path(), findings_);
      read_conditions(fields);
      if (findings_.errors().size() == errors) check_trial_job(fields);
    } else {
      fields.ignore({"successCondition", "failureCondition"});
    }
    fields.finish();
  }

  void read_trial_parameters(ObjectFields& fields) {
    fields.each("trialParameters", [&](const Value& item, const std::string& path) {
      ObjectFields one(&item, path, findings_);
      TrialParameter parameter;
      parameter.place = item.place;
      parameter.name = one.text("name").value_or("");
      parameter.description = one.text("description").value_or("");
      parameter.reference = one.text("reference").value_or("");
      if (one.is_given() && parameter.name.empty() && !findings_.has_error_at(one.path("name"))) one.require("name");
      if (one.is_given() && parameter.reference.empty() && !findings_.has_error_at(one.path("reference")))
        one.require("reference", "the name of a parameter of spec.parameters");
      one.finish();
      spec_.trial_template.parameters.push_back(std::move(parameter));
    });
    const Value* list = fields.take("trialParameters");
    if (list == nullptr || (list->is_list() && list->items.empty()))
      fields.error("trialParameters", list, "is required; declare the parameters that trialSpec uses");
  }

  bool read_trial_spec(ObjectFields& fields) {
    const Value* config_map = fields.take("configMap");
    const Value* trial_spec = fields.take("trialSpec");
    if (config_map != nullptr) {
      fields.error(
          "configMap", config_map,
          "templates in config maps are not supported, because there are none; put the template into trialSpec");
    }
    if (trial_spec == nullptr) {
      if (config_map == nullptr)
        fields.require("trialSpec", "the Job, PyTorchJob, TFJob, MPIJob or TrainJob of a trial");
      return false;
    }
    if (!trial_spec->is_map()) {
      fields.error("trialSpec", trial_spec, fmt::format("expected a map, got {}", shown(*trial_spec)));
      return false;
    }
    spec_.trial_template.trial_spec = *trial_spec;
    return true;
  }

  void read_conditions(ObjectFields& fields) {
    TrialTemplate& out = spec_.trial_template;
    const Value* kind = out.trial_spec.find("kind");
    const auto usual = kind != nullptr && kind->is_text() ? default_conditions(kind->text) : std::nullopt;
    const auto read = [&](std::string_view key, std::string Conditions::*which) {
      const auto given = fields.text(key);
      if (given && usual && *given != (*usual).*which) {
        findings_.warning(fields.path(key), fields.take(key)->place,
                          "is accepted, but has no effect: the end of the job decides");
      }
      return given && !given->empty() ? *given : usual ? (*usual).*which : std::string();
    };
    out.success_condition = read("successCondition", &Conditions::success);
    out.failure_condition = read("failureCondition", &Conditions::failure);
  }

  // The job of a trial with possible values.
  void check_trial_job(ObjectFields& fields) {
    Assignments sample;
    for (const Parameter& parameter : spec_.parameters) {
      sample.push_back({parameter.name, !parameter.list.empty() ? parameter.list.front()
                                        : parameter.min.empty() ? "1"
                                                                : parameter.min});
    }
    for (const TrialParameter& parameter : spec_.trial_template.parameters) {
      if (std::ranges::find(sample, parameter.reference, &Setting::name) == sample.end())
        sample.push_back({parameter.reference, "1"});
    }
    const auto object = substitute(spec_.trial_template, {.name = "trial"}, sample);
    if (!object) {
      fields.error("trialSpec", fields.take("trialSpec"), object.error().message);
      return;
    }
    read_training_job(*object, spec_.trial_template.primary_container, fields.path("trialSpec"), findings_);
  }

  ObjectFields& fields_;
  Findings& findings_;
  ExperimentSpec spec_;
};

void set_if_absent(Value& object, std::string_view key, Value value) {
  const Value* present = object.find(key);
  if (present == nullptr || present->is_null()) object.set(key, std::move(value));
}

}  // namespace

const std::vector<std::string>& experiment_keys() {
  static const std::vector<std::string> keys{
      "objective",    "algorithm",  "earlyStopping", "parallelTrialCount", "maxTrialCount",       "maxFailedTrialCount",
      "resumePolicy", "parameters", "nasConfig",     "trialTemplate",      "metricsCollectorSpec"};
  return keys;
}

std::optional<ExperimentSpec> read_experiment(ObjectFields& top, Findings& findings) {
  const Value* given = top.take("spec");
  if (given == nullptr) {
    top.require("spec");
    return std::nullopt;
  }
  ObjectFields fields = top.object("spec");
  if (!fields.is_given()) return std::nullopt;
  return SpecReader(fields, findings).read();
}

void add_defaults(const ExperimentSpec& spec, Value& object) {
  Value* to = object.find("spec");
  if (to == nullptr || !to->is_map()) return;
  set_if_absent(*to, "parallelTrialCount", Value::of_integer(spec.parallel_trials));
  set_if_absent(*to, "resumePolicy", Value::of_text(std::string(name_of(spec.resume))));
  if (Value* objective = to->find("objective")) {
    Value strategies = Value::list();
    const auto add = [&](const std::string& metric) {
      Value one = Value::map();
      one.set("name", Value::of_text(metric));
      one.set("value", Value::of_text(std::string(name_of(spec.objective.strategies.at(metric)))));
      strategies.items.push_back(std::move(one));
    };
    add(spec.objective.metric);
    for (const std::string& metric : spec.objective.additional_metrics) add(metric);
    objective->set("metricStrategies", std::move(strategies));
  }
  set_if_absent(*to, "metricsCollectorSpec", Value::map());
  Value& collector_spec = *to->find("metricsCollectorSpec");
  set_if_absent(collector_spec, "collector", Value::map());
  set_if_absent(*collector_spec.find("collector"), "kind", Value::of_text(std::string(name_of(spec.collector.kind))));
  const bool has_path = spec.collector.kind == CollectorKind::kFile ||
                        spec.collector.kind == CollectorKind::kTensorFlowEvent ||
                        spec.collector.kind == CollectorKind::kPrometheus;
  if (has_path) {
    set_if_absent(collector_spec, "source", Value::map());
    Value& source = *collector_spec.find("source");
    const bool is_http = spec.collector.kind == CollectorKind::kPrometheus;
    const char* key = is_http ? "httpGet" : "fileSystemPath";
    set_if_absent(source, key, Value::map());
    Value& place = *source.find(key);
    set_if_absent(place, "path", Value::of_text(spec.collector.path));
    if (is_http) set_if_absent(place, "port", Value::of_integer(spec.collector.port));
    if (spec.collector.kind == CollectorKind::kFile) {
      set_if_absent(place, "kind", Value::of_text("File"));
      set_if_absent(place, "format", Value::of_text(spec.collector.is_json ? "JSON" : "TEXT"));
    }
    if (spec.collector.kind == CollectorKind::kTensorFlowEvent)
      set_if_absent(place, "kind", Value::of_text("Directory"));
  }
  if (Value* trial_template = to->find("trialTemplate")) {
    set_if_absent(*trial_template, "retain", Value::of_boolean(spec.trial_template.retain));
    set_if_absent(*trial_template, "successCondition", Value::of_text(spec.trial_template.success_condition));
    set_if_absent(*trial_template, "failureCondition", Value::of_text(spec.trial_template.failure_condition));
  }
}

}  // namespace volador::experiments::katib
