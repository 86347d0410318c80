// The list of files of a folder in a storage. It is written last, so that a folder with a manifest is complete. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"

namespace volador::storage {

// Name of the manifest in the folder. A folder that is stored may not have a file of this name.
inline constexpr std::string_view kManifestName = "volador-manifest.json";
inline constexpr size_t kManifestBytesMax = 256 << 20;

struct ManifestFile {
  std::string path;  // Relative, with slashes.
  int64_t bytes = 0;
  std::string sha256;    // 64 lower-case hex digits.
  unsigned mode = 0600;  // Permissions.

  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  std::vector<ManifestFile> files;       // By path.
  std::vector<std::string> directories;  // Those without entries, by path.

  bool operator==(const Manifest&) const = default;

  int64_t bytes() const;  // Total of all files.
  std::string to_json() const;
};

// Rejects paths that leave the folder, double paths and invalid checksums. kInvalidArgument: names `what`.
[[nodiscard]] Result<Manifest> parse_manifest(std::string_view what, std::string_view json);

// Whether a path is chosen: equal to one of `selectors`, in a folder that one names, or matched by one with '*' (which
// also matches slashes) and '?'. No selectors choose everything.
bool is_selected(const std::vector<std::string>& selectors, std::string_view path);

}  // namespace volador::storage
