// A directory as one compressed, checksummed file and back, in constant memory: what a checkpoint travels and is stored
// as. Regular files and directories only; names, contents and permission bits are kept, owners and times are not.
//
//   archive   = "VLDARC01" zstd-stream sha256          the checksum (32 bytes) covers all before it
//   stream    = entry* end
//   entry     = kind:u8 (1 directory, 2 file) mode:u16 path-bytes:u16 size:u64 path contents      little endian,
//   directory before its entries end       = kind:u8 (0) entries:u64 content-bytes:u64
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/files/durable_file.h"
#include "runtime/result.h"

namespace volador {

// What packing and unpacking refuse to go beyond.
struct ArchiveLimits {
  int64_t content_bytes_max = int64_t{256} << 30;  // Of all files together, uncompressed.
  int64_t entries_max = 1'000'000;                 // Files and directories.
  size_t path_bytes_max = 1024;                    // Of one relative path.
};

struct ArchiveSummary {
  std::string sha256;         // 64 hex digits: the checksum at the archive's end.
  int64_t archive_bytes = 0;  // Length of the archive.
  int64_t content_bytes = 0;  // Of all files together.
  int64_t entries = 0;        // Files and directories.
};

// A file or directory below a directory.
struct ArchiveEntry {
  std::string name;  // Relative, with slashes.
  bool is_directory = false;
};
// All that `directory` holds, each directory before what is in it, in an order of their names. Errors: as pack_directory.
[[nodiscard]] Result<std::vector<ArchiveEntry>> list_entries(const std::filesystem::path& directory, const ArchiveLimits& limits = {});

// Writes `archive` (replaced if it exists) from all that `directory` holds. Equal trees give equal archives.
// kInvalidArgument: a symbolic link, socket or device in it, a file that changed meanwhile, or beyond the limits; names
// the path. kNotFound, kPermissionDenied, kUnavailable: of the file system. No archive is left behind after an error.
[[nodiscard]] Result<ArchiveSummary> pack_directory(const std::filesystem::path& directory,
                                                    const std::filesystem::path& archive,
                                                    const ArchiveLimits& limits = {},
                                                    Durability durability = Durability::kPower);

// The same of some of its entries, in the order of list_entries. Where directories are left out, another archive has to make them.
[[nodiscard]] Result<ArchiveSummary> pack_entries(const std::filesystem::path& directory,
                                                  const std::vector<ArchiveEntry>& entries,
                                                  const std::filesystem::path& archive,
                                                  const ArchiveLimits& limits = {},
                                                  Durability durability = Durability::kPower);

// Makes the directory `target` (absent, or empty) of `archive`. Nothing is written outside of a temporary directory
// beside it, which is renamed only when all was read, checked and synced: after an error `target` is as before.
// kInvalidArgument: truncated, corrupt, beyond the limits, or a path that is absolute, has "..", or occurs twice.
[[nodiscard]] Result<ArchiveSummary> unpack_archive(const std::filesystem::path& archive,
                                                    const std::filesystem::path& target,
                                                    const ArchiveLimits& limits = {},
                                                    Durability durability = Durability::kPower);

// The same of several archives, which together make one directory, in this order. The limits are those of each.
[[nodiscard]] Result<std::vector<ArchiveSummary>> unpack_archives(const std::vector<std::filesystem::path>& archives,
                                                                  const std::filesystem::path& target,
                                                                  const ArchiveLimits& limits = {},
                                                                  Durability durability = Durability::kPower);

// Reads the archive once and compares its checksum; its entries are not looked at. kInvalidArgument: torn.
[[nodiscard]] Result<ArchiveSummary> verify_archive(const std::filesystem::path& archive);

}  // namespace volador
