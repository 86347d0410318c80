// The first check of a layer, before it is merged: types, ranges, unknown keys, and what keys of one object say together.
#pragma once

#include "experiments/config/finding.h"
#include "runtime/yaml/value.h"

namespace volador::experiments {

// Returns the layer in its canonical form, in which keys have one name and values one form:
// - keys with the value null are left out, also values that have an error;
// - images and variables are maps of cpu, cuda and rocm; devices are maps; sizes are bytes;
// - hyperparameters are maps with a type, or nested maps of such.
// Old and misspelled keys and values are accepted with a warning. A canonical form is its own canonical form.
yaml::Value sane(const yaml::Value& layer, Findings& findings);

// The keys of the schema for people: "a whole number from 1 to 99", "one of best, all, none".
struct Type;
std::string expectation(const Type& type);

}  // namespace volador::experiments
