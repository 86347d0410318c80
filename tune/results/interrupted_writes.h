// What a run whose process was killed leaves in the folders of its trials: checkpoints and artifacts that were being
// written. They mean nothing, and may be large.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace volador::tune {

// Removes it from the newest earlier runs of the experiment `name` in `storage_path`, `runs_max` at most; `own` and
// runs that a process drives now (is_driven) are left alone. Returns how many files and folders went. What cannot be
// read or removed stays.
size_t remove_interrupted_writes(const std::filesystem::path& storage_path, const std::string& name,
                                 const std::filesystem::path& own, size_t runs_max = 16);

}  // namespace volador::tune
