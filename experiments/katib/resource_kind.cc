#include "experiments/katib/resource_kind.h"

#include <algorithm>

#include "runtime/text.h"

namespace volador::experiments::katib {

const std::vector<ResourceKind>& resource_kinds() {
  static const std::vector<ResourceKind> kinds{
      {"Experiment", {"kubeflow.org/v1beta1"}, {"exp"}},
      {"Suggestion", {"kubeflow.org/v1beta1"}, {}, false, false},
      {"Trial", {"kubeflow.org/v1beta1"}, {}, false, false},
      {"Job", {"batch/v1"}, {}, true},
      {"PyTorchJob", {"kubeflow.org/v1"}, {"ptj"}, true},
      {"TFJob", {"kubeflow.org/v1"}, {}, true},
      {"MPIJob", {"kubeflow.org/v2beta1", "kubeflow.org/v1"}, {}, true},
      {"TrainJob", {"trainer.kubeflow.org/v1alpha1"}, {}, true},
  };
  return kinds;
}

const ResourceKind* resource_kind(std::string_view name) {
  const auto& kinds = resource_kinds();
  const auto found = std::ranges::find(kinds, name, &ResourceKind::name);
  return found == kinds.end() ? nullptr : &*found;
}

std::optional<std::string> kind_of(std::string_view text) {
  const std::string wanted = lower_case(text);
  for (const ResourceKind& kind : resource_kinds()) {
    const std::string name = lower_case(kind.name);
    for (const std::string& form : {name, name + "s"})
      if (wanted == form || wanted == form + "." + std::string(kind.group())) return std::string(kind.name);
    if (std::ranges::find(kind.short_names, wanted) != kind.short_names.end()) return std::string(kind.name);
  }
  return std::nullopt;
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const ResourceKind& kind : resource_kinds()) names.push_back(lower_case(kind.name));
  return names;
}

std::string_view group_of_kind(std::string_view kind) {
  const ResourceKind* found = resource_kind(kind);
  return found == nullptr ? std::string_view() : found->group();
}

bool is_training_kind(std::string_view kind) {
  const ResourceKind* found = resource_kind(kind);
  return found != nullptr && found->is_training;
}

}  // namespace volador::experiments::katib
