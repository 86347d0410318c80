// Writes values as JSON and YAML. The same value gives the same text; reading it gives the value again.
#pragma once

#include <string>

#include "runtime/yaml/value.h"

namespace volador::yaml {

// `indent`: spaces for each level; -1 writes one line.
std::string json_text(const Value& value, int indent = -1);
// Block style; ends with a line feed. Readers of YAML 1.1 understand it the same way.
std::string yaml_text(const Value& value);

}  // namespace volador::yaml
