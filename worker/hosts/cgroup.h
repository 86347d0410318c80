// The control groups of this process, v1 and v2.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace volador::worker {

// Returns the folders of this process's group for a v1 controller ("memory") or v2 (""), from the group up to its root;
// empty if there is none. `root` contains proc/ and sys/. A group path that is not visible (inside a container) falls
// back to the mount's root.
[[nodiscard]] std::vector<std::filesystem::path> cgroup_folders(const std::filesystem::path& root,
                                                                std::string_view controller);

// Returns a small file without its final newline; nullopt if unreadable.
[[nodiscard]] std::optional<std::string> read_small_file(const std::filesystem::path& path);
// Returns a number; nullopt for "max", "-1" and other text.
[[nodiscard]] std::optional<int64_t> read_number(const std::filesystem::path& path);
// Returns the number for `key` in lines "key number".
[[nodiscard]] std::optional<int64_t> read_keyed_number(const std::filesystem::path& path, std::string_view key);

}  // namespace volador::worker
