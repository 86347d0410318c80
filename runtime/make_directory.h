#pragma once

#include <sys/types.h>

#include <filesystem>

#include "runtime/result.h"

namespace volador {

// Makes the folder and those above it that are missing, with `mode` each; the umask applies. A folder that exists is left
// as it is. kNotFound, kPermissionDenied, kUnavailable: name the folder.
[[nodiscard]] Result<void> make_directory(const std::filesystem::path& directory, mode_t mode);

}  // namespace volador
