#pragma once

#include <sys/types.h>

#include <filesystem>

#include "runtime/result.h"

namespace volador {

// Creates the folder and its missing parents with `mode`; the umask applies. An existing folder is unchanged.
// kNotFound, kPermissionDenied, kUnavailable: name the folder.
[[nodiscard]] Result<void> make_directory(const std::filesystem::path& directory, mode_t mode);

}  // namespace volador
