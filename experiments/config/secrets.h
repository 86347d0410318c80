// Hides the secrets of a configuration for output that people and other users see.
#pragma once

#include <optional>
#include <string>

#include "runtime/yaml/value.h"

namespace volador::experiments {

inline constexpr const char* kHidden = "********";

// Returns a canonical configuration with ******** for: the values below data.secrets, keys and connection strings of
// storages, passwords and tokens of registries and integrations, user names and passwords in addresses, and environment
// variables whose names say that they are secrets.
yaml::Value without_secrets(yaml::Value canonical);

// Replaces what without_secrets(canonical) hides by the values of `canonical` wherever `value` has the same hidden value in
// the same place. Texts of a list, such as environment variables, may be in another order.
void restore_secrets(yaml::Value& value, const yaml::Value& canonical);
// The place of a value that is still hidden: "data.secrets.key", "environment.environment_variables.cpu.0".
std::optional<std::string> first_hidden(const yaml::Value& value);

}  // namespace volador::experiments
