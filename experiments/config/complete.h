// The second and third step after merging: whether all that is needed is there, and the defaults of the rest.
#pragma once

#include <cstdint>
#include <string>

#include "experiments/config/finding.h"
#include "runtime/yaml/value.h"

namespace volador::experiments {

// What the submission adds where the configuration is silent.
struct Submission {
  std::string name;             // Name of an experiment without one.
  int64_t experiment_seed = 0;  // 0 to 2^31 - 1.
  // Whether the layers contain the defaults of the cluster. Without them a missing checkpoint_storage is a warning.
  bool has_cluster_defaults = true;
};

// Adds the name and the seed of the submission to a merged configuration that lacks them.
yaml::Value with_submission(yaml::Value merged, const Submission& submission);

// Reports the keys that a merged configuration lacks, and objects whose keys contradict each other after merging.
void check_complete(const yaml::Value& merged, const Submission& submission, Findings& findings);

// Every key of the schema, with its default where the configuration has none. Applying it again changes nothing.
yaml::Value with_defaults(const yaml::Value& merged);

}  // namespace volador::experiments
