// Checkpoints that a training run in Python has copied to a storage.
//
//   <storage>/<run>/checkpoints/checkpoint_000010/…       the user's files
//   <storage>/<run>/checkpoints/checkpoint_000010.json    {"step": 10, "files": {"model.pt": 123}}, with the bytes of
//                                                         each; written last
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "runtime/result.h"

namespace volador::train {

// Writes the mark of a checkpoint's folder beside it.
[[nodiscard]] Result<void> write_checkpoint_mark(const std::filesystem::path& folder, int64_t step);
// The step of a checkpoint's folder on this disk; 0: it has no mark.
[[nodiscard]] int64_t step_of_checkpoint(const std::filesystem::path& folder);
// Reads the checkpoint at this address, or a folder that `volador storage cp` has stored there, into a folder that is
// absent or empty. Returns its step, 0 if unknown. kNotFound: no complete checkpoint is stored there. Other errors as
// storage::ObjectStore.
[[nodiscard]] Result<int64_t> fetch_checkpoint(const std::string& address, const std::filesystem::path& folder);

}  // namespace volador::train
