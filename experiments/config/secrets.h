// Hides the secrets of a configuration for output that people and other users see.
#pragma once

#include "runtime/yaml/value.h"

namespace volador::experiments {

inline constexpr const char* kHidden = "********";

// Returns a canonical configuration with ******** for: the values below data.secrets, keys and connection strings of
// storages, passwords and tokens of registries and integrations, user names and passwords in addresses, and environment
// variables whose names say that they are secrets.
yaml::Value without_secrets(yaml::Value canonical);

}  // namespace volador::experiments
