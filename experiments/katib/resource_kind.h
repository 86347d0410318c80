// The kinds of resources, and the versions of their APIs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace volador::experiments::katib {

struct ResourceKind {
  std::string_view name;                       // "PyTorchJob".
  std::vector<std::string_view> api_versions;  // The first is written.
  std::vector<std::string_view> short_names;
  bool is_training = false;  // It is a job.
  bool is_given = true;      // Files have it; Suggestions and Trials are made by experiments.

  // "kubeflow.org", "batch".
  std::string_view group() const { return api_versions.front().substr(0, api_versions.front().find('/')); }
};

const std::vector<ResourceKind>& resource_kinds();
// Null pointer: there is no such kind.
const ResourceKind* resource_kind(std::string_view name);

// A kind by its name in any case, plural or short name, also with its group: "experiments", "pytorchjob",
// "experiment.kubeflow.org", "exp". No value: there is no such kind.
std::optional<std::string> kind_of(std::string_view text);
// Names for messages: "experiment", "job", "pytorchjob" …
std::vector<std::string> kind_names();
// Group of the kind's API; empty for an unknown kind.
std::string_view group_of_kind(std::string_view kind);
bool is_training_kind(std::string_view kind);

}  // namespace volador::experiments::katib
