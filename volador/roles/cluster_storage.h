// The storage of a cluster for checkpoints of experiments, as a default for their configurations. Pure.
#pragma once

#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador {

// Defaults of the cluster for configurations of experiments, as JSON: a checkpoint_storage for an address of a storage
// (runtime/storage/storage_url.h) or an absolute folder. kInvalidArgument: see parse_storage_url(), or the address has a
// parameter that a configuration cannot say.
[[nodiscard]] Result<std::string> experiment_defaults(std::string_view storage);

}  // namespace volador
