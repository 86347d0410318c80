// The control groups of this process, v1 and v2.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace volador::worker {

// Folders of this process's group for a v1 controller ("memory"), or of v2 (""), from the group itself up to its root.
// Empty where there is none. Below `root` lie proc/ and sys/. A group path that is not visible (inside a container)
// falls back to the mount's root.
[[nodiscard]] std::vector<std::filesystem::path> cgroup_folders(const std::filesystem::path& root,
                                                                std::string_view controller);

// The whole of a small file without its line end; nullopt where it cannot be read.
[[nodiscard]] std::optional<std::string> read_small_file(const std::filesystem::path& path);
// One number; nullopt for "max", "-1" and everything else that is none.
[[nodiscard]] std::optional<int64_t> read_number(const std::filesystem::path& path);
// The number behind `key` in lines "key number".
[[nodiscard]] std::optional<int64_t> read_keyed_number(const std::filesystem::path& path, std::string_view key);

}  // namespace volador::worker
