// Clean-up of partial checkpoints and artifacts that killed runs leave in the folders of their trials. They are not
// valid, and may be large.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace volador::tune {

// Removes them from the newest earlier runs of the experiment `name` in `storage_path`, `runs_max` at most, except from
// `own` and from runs that a process is running (is_driven). Returns the number of files and folders removed. Ignores
// read and remove errors.
size_t remove_interrupted_writes(const std::filesystem::path& storage_path, const std::string& name,
                                 const std::filesystem::path& own, size_t runs_max = 16);

}  // namespace volador::tune
