// A directory as several archives (directory_archive.h), so that unchanged data is not packed, sent or stored again:
// one archive per large file, preceded by one with the directories and all other files. Equal parts have equal
// checksums.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/files/directory_archive.h"
#include "runtime/result.h"

namespace volador {

// One archive of a directory.
struct DirectoryPart {
  std::string sha256;  // Checksum of its archive.
  int64_t bytes = 0;   // Size of its archive.

  bool operator==(const DirectoryPart&) const = default;
};

// Rules for splitting a directory.
struct PartLimits {
  int64_t own_bytes_min = 64 << 10;  // Smaller files share an archive.
  size_t own_max = 64;               // Number of files with their own archive, largest first; the others share one.
};

// Returns the file name of a part: "archive.vla" for the first, "part_<its checksum>.vla" for later ones.
std::string part_name(const std::vector<DirectoryPart>& parts, size_t index);
// Returns the first part in the directory and all other part files there.
std::vector<std::filesystem::path> parts_in(const std::filesystem::path& directory);

// Packs successive versions of one directory. One thread.
class DirectoryPacker {
 public:
  // The archives are stored in `folder`, which is created if needed.
  explicit DirectoryPacker(std::filesystem::path folder, const PartLimits& limits = {})
      : folder_(std::move(folder)), limits_(limits) {}

  // Returns the parts in unpacking order. A large file whose name, permissions and contents are unchanged keeps its
  // archive; only its checksum is computed. Unused archives are removed. Errors as pack_directory.
  [[nodiscard]] Result<std::vector<DirectoryPart>> pack(const std::filesystem::path& directory);
  // Path of a part's archive from the last pack().
  std::filesystem::path archive(const std::string& sha256) const { return folder_ / (sha256 + ".vla"); }

 private:
  struct Packed {
    unsigned mode = 0;
    std::string contents;  // Checksum.
    DirectoryPart part;
  };
  Result<DirectoryPart> pack_some(const std::filesystem::path& directory,
                                  const std::vector<ArchiveEntry>& entries) const;
  Result<Packed> pack_file(const std::filesystem::path& directory, const ArchiveEntry& file) const;
  void drop_others(const std::vector<DirectoryPart>& parts) const;

  const std::filesystem::path folder_;
  const PartLimits limits_;
  std::map<std::string, Packed> packed_;  // Large files of the last pack().
};

}  // namespace volador
