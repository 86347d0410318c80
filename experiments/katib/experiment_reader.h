// Reads and checks the spec of an Experiment, and writes its defaults into the object.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/config/finding.h"
#include "experiments/katib/experiment_spec.h"
#include "experiments/katib/object_fields.h"

namespace volador::experiments::katib {

// Keys of spec.
const std::vector<std::string>& experiment_keys();

// `top`: the whole object, whose key spec is taken. What has an error is absent in the result; without spec there is no
// value.
std::optional<ExperimentSpec> read_experiment(ObjectFields& top, Findings& findings);

// Sets the defaults that the object lacks.
void add_defaults(const ExperimentSpec& spec, yaml::Value& object);

}  // namespace volador::experiments::katib
