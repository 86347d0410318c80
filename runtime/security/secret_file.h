// Files readable by their owner only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador::security {

inline constexpr size_t kSecretFileBytesMax = 1 << 20;

// Writes a temporary file next to it (0600 regardless of the umask), syncs, renames, syncs the folder. kUnavailable:
// file system error; names the file and the reason.
[[nodiscard]] Result<void> write_secret_file(const std::filesystem::path& path, std::string_view bytes);

// kNotFound: no such file. kPermissionDenied: a symbolic link, not a regular file, owned by another user, or accessible
// by others (the message names the file, its mode and the command that fixes it). kInvalidArgument: above
// kSecretFileBytesMax.
[[nodiscard]] Result<std::string> read_secret_file(const std::filesystem::path& path);

}  // namespace volador::security
