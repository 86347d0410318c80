// Reads resources in the form of Kubernetes: Katib's experiments, and the training jobs of Kubernetes and Kubeflow.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/finding.h"
#include "experiments/katib/experiment_spec.h"
#include "experiments/katib/resource_kind.h"
#include "runtime/result.h"

namespace volador::experiments::katib {

inline constexpr size_t kResourcesMax = 1000;     // In a file.
inline constexpr size_t kExperimentNameMax = 40;  // Trials have names of their own below it.
inline constexpr size_t kResourceNameMax = 63;    // The other kinds.
inline constexpr int64_t kParallelTrialsDefault = 3;

struct ResourceReading {
  Findings findings;                // All errors and warnings, each with its place.
  std::vector<Resource> resources;  // In the order of the documents; empty if there are errors.

  bool is_valid() const { return findings.errors().empty(); }
  // The errors as one, each on a line of its own with its place.
  Error error() const;
};

// Reads a file of one or several documents, YAML or JSON, empty ones left out; a document of kind List stands for its
// items. `default_namespace`: of resources without one.
//
// Errors name the place, the value, the rule, and for an unknown key the nearest known one. Keys of pods that make no
// difference here are accepted. A second resource of the same kind, namespace and name is an error.
//
// Reading the objects of the result again gives the same result.
ResourceReading read_resources(std::string_view text, std::string_view file_name,
                               std::string_view default_namespace = "default");

// One resource that was read before, as Resource::object in JSON. kInvalidArgument: it is not valid.
[[nodiscard]] Result<Resource> resource_of(std::string_view json);

// What applying `given` over `present`, of the same kind, namespace and name, means.
enum class Change : uint8_t { kUnchanged, kConfigured };
// kInvalidArgument: it changes what cannot be changed. For an Experiment that is all of its spec but parallelTrialCount,
// maxTrialCount and maxFailedTrialCount; for a training job its whole spec.
[[nodiscard]] Result<Change> change_of(const Resource& present, const Resource& given);

}  // namespace volador::experiments::katib
