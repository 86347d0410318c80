// The template of an experiment's trials: its placeholders, its conditions, and the object of one trial.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/finding.h"
#include "experiments/katib/experiment_spec.h"
#include "runtime/result.h"

namespace volador::experiments::katib {

// Conditions of a kind for trials without their own.
struct Conditions {
  std::string success, failure;
};
// No value: the kind has none.
std::optional<Conditions> default_conditions(std::string_view kind);

// A reference to the trial instead of to a parameter: "${trialSpec.Name}", "${trialSpec.Labels[team]}".
struct TrialReference {
  enum class What : uint8_t { kName, kNamespace, kKind, kApiVersion, kAnnotation, kLabel } what = What::kName;
  std::string key;  // Its key, for an annotation or label.
};
// No value: another form.
std::optional<TrialReference> trial_reference(std::string_view text);

// Reports parameters of the template that are declared twice, are not used, or refer to nothing; placeholders that no
// parameter declares, and metadata that the trial gets itself. `parameters`: names of the experiment's parameters;
// empty: references to them are not checked, as for a search of architectures.
void check_template(const TrialTemplate& trial_template, const std::vector<std::string>& parameters,
                    std::string_view path, Findings& findings);

// The object of the trial: trialSpec with the values of its placeholders, in keys and texts, and the trial's name,
// namespace and labels in its metadata. Values keep their places in the file.
//
// kInvalidArgument: a parameter has no assignment, or an annotation or label is not there.
[[nodiscard]] Result<yaml::Value> substitute(const TrialTemplate& trial_template, const Metadata& trial,
                                             const Assignments& assignments);

}  // namespace volador::experiments::katib
