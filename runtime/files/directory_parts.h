// A directory as several archives (directory_archive.h), so that what stays as it was is neither packed nor sent nor kept twice: a part of its
// own for each large file, and before them one with the directories and everything else. Equal parts have equal checksums.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/files/directory_archive.h"
#include "runtime/result.h"

namespace volador {

struct DirectoryPart {
  std::string sha256;  // Of its archive.
  int64_t bytes = 0;   // Of its archive.

  bool operator==(const DirectoryPart&) const = default;
};

struct PartLimits {
  int64_t own_bytes_min = 64 << 10;  // Smaller files travel together.
  size_t own_max = 64;               // The largest files; the others travel with the small ones.
};

// Names of parts beside each other in one directory: the first is "archive.vla", a later one "part_<its checksum>.vla".
std::string part_name(const std::vector<DirectoryPart>& parts, size_t index);
// The first part and the others that lie there, whichever they belong to.
std::vector<std::filesystem::path> parts_in(const std::filesystem::path& directory);

// What is packed again and again, each time from a directory of the same meaning. One thread.
class DirectoryPacker {
 public:
  // The archives lie in `folder`, which is made where it is missing.
  explicit DirectoryPacker(std::filesystem::path folder, const PartLimits& limits = {}) : folder_(std::move(folder)), limits_(limits) {}

  // Its parts in the order in which they are unpacked. A large file with the name, permissions and contents of last time keeps its archive
  // unread but for its checksum. Archives that are not among them are removed. Errors: as pack_directory.
  [[nodiscard]] Result<std::vector<DirectoryPart>> pack(const std::filesystem::path& directory);
  // Of one that pack() gave last.
  std::filesystem::path archive(const std::string& sha256) const { return folder_ / (sha256 + ".vla"); }

 private:
  struct Packed {
    unsigned mode = 0;
    std::string contents;  // Checksum.
    DirectoryPart part;
  };
  Result<DirectoryPart> pack_some(const std::filesystem::path& directory, const std::vector<ArchiveEntry>& entries) const;
  Result<Packed> pack_file(const std::filesystem::path& directory, const ArchiveEntry& file) const;
  void drop_others(const std::vector<DirectoryPart>& parts) const;

  const std::filesystem::path folder_;
  const PartLimits limits_;
  std::map<std::string, Packed> packed_;  // Large files of last time.
};

}  // namespace volador
