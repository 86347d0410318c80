// Where the checkpoints of an experiment are, as an address with its credentials.
#pragma once

#include <string_view>

#include "experiments/config/experiment_config.h"
#include "runtime/result.h"
#include "runtime/storage/storage_url.h"

namespace volador::experiments {

// kInvalidArgument: a folder or prefix leaves its place by "..", or credentials contradict each other; the message names
// the key.
[[nodiscard]] Result<storage::StorageTarget> checkpoint_target(const CheckpointStorage& storage);
// `json`: `checkpoint_storage` of a complete configuration, secrets included. kInvalidArgument: also if it is none.
[[nodiscard]] Result<storage::StorageTarget> checkpoint_target(std::string_view json);

}  // namespace volador::experiments
