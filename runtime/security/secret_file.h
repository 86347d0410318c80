// Files that only their owner may read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador::security {

inline constexpr size_t kSecretFileBytesMax = 1 << 20;

// Writes to a temporary file beside it (0600 whatever the umask), syncs, renames, syncs the folder.
// kUnavailable: the file system refused; the message names the file and the reason.
[[nodiscard]] Result<void> write_secret_file(const std::filesystem::path& path, std::string_view bytes);

// kNotFound: no such file. kPermissionDenied: a symbolic link, not a plain file, of another user, or open to others
// (the message names the file, its mode and the command that repairs it). kInvalidArgument: above kSecretFileBytesMax.
[[nodiscard]] Result<std::string> read_secret_file(const std::filesystem::path& path);

}  // namespace volador::security
