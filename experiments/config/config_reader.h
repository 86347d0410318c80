// Reads an experiment configuration: the user's file over a template over the defaults of the cluster.
#pragma once

#include <optional>
#include <string>

#include "experiments/config/complete.h"
#include "experiments/config/experiment_config.h"
#include "experiments/config/finding.h"
#include "experiments/config/rules.h"
#include "runtime/result.h"

namespace volador::experiments {

struct ConfigFile {
  std::string name;  // For messages.
  std::string text;  // YAML or JSON.
};

struct ConfigSources {
  ConfigFile config;
  std::optional<ConfigFile> config_template;
  std::optional<ConfigFile> cluster_defaults;
  // Without cluster_defaults the storage of the cluster is unknown; has_cluster_defaults is set from it.
  Submission submission;
  PoolRules pool;
};

struct ConfigReading {
  Findings findings;                       // All errors and warnings of all files.
  std::optional<ExperimentConfig> config;  // If there are no errors.

  bool is_valid() const { return config.has_value(); }
  // The errors as one: the first with its place, and how many others there are. For operations that answer with one error.
  Error error() const;
};

ConfigReading read_config(const ConfigSources& sources);

enum class Secrets : uint8_t { kHidden, kShown };
// The complete configuration as JSON in one line: DET_EXPERIMENT_CONFIG of trials, with shown secrets.
std::string json_of(const ExperimentConfig& config, Secrets secrets);
// The same as YAML, for people.
std::string yaml_of(const ExperimentConfig& config, Secrets secrets);

}  // namespace volador::experiments
