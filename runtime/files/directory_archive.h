// Packs a directory into one compressed, checksummed file and back, in constant memory: the format in which checkpoints
// are sent and stored. Regular files and directories only; names, contents and permission bits are kept, owners and
// times are not.
//
//   archive   = "VLDARC01" zstd-stream sha256          the checksum (32 bytes) covers everything before it
//   stream    = entry* end
//   entry     = kind:u8 (1 directory, 2 file) mode:u16 path-bytes:u16 size:u64 path contents
//               little-endian, a directory before its entries
//   end       = kind:u8 (0) entries:u64 content-bytes:u64
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/files/durable_file.h"
#include "runtime/result.h"

namespace volador {

// Limits of packing and unpacking.
struct ArchiveLimits {
  int64_t content_bytes_max = int64_t{256} << 30;  // Total of all files, uncompressed.
  int64_t entries_max = 1'000'000;                 // Files and directories.
  size_t path_bytes_max = 1024;                    // Per relative path.
};

// Checksum and sizes of an archive.
struct ArchiveSummary {
  std::string sha256;         // 64 hex digits: the checksum at the archive's end.
  int64_t archive_bytes = 0;  // Length of the archive.
  int64_t content_bytes = 0;  // Total of all files.
  int64_t entries = 0;        // Files and directories.
};

// A file or directory below a directory.
struct ArchiveEntry {
  std::string name;  // Relative, with slashes.
  bool is_directory = false;
};
// Returns everything in `directory`, each directory before its contents, ordered by name. Errors as pack_directory.
[[nodiscard]] Result<std::vector<ArchiveEntry>> list_entries(const std::filesystem::path& directory,
                                                             const ArchiveLimits& limits = {});

// Packs all of `directory` into `archive`, which is replaced if it exists. Equal trees give equal archives.
// kInvalidArgument: it contains a symbolic link, socket or device, a file changed during packing, or a limit is
// exceeded; names the path. kNotFound, kPermissionDenied, kUnavailable: file system errors. No archive is left after an
// error.
[[nodiscard]] Result<ArchiveSummary> pack_directory(const std::filesystem::path& directory,
                                                    const std::filesystem::path& archive,
                                                    const ArchiveLimits& limits = {},
                                                    Durability durability = Durability::kPower);

// As pack_directory, for some of its entries in the order of list_entries. Omitted directories must be created by
// another archive.
[[nodiscard]] Result<ArchiveSummary> pack_entries(const std::filesystem::path& directory,
                                                  const std::vector<ArchiveEntry>& entries,
                                                  const std::filesystem::path& archive,
                                                  const ArchiveLimits& limits = {},
                                                  Durability durability = Durability::kPower);

// Unpacks `archive` into the directory `target` (absent or empty), through a temporary directory next to it that is
// renamed after everything was read, verified and synced: after an error `target` is unchanged. kInvalidArgument:
// truncated, corrupt, a limit is exceeded, or a path is absolute, contains "..", or occurs twice.
[[nodiscard]] Result<ArchiveSummary> unpack_archive(const std::filesystem::path& archive,
                                                    const std::filesystem::path& target,
                                                    const ArchiveLimits& limits = {},
                                                    Durability durability = Durability::kPower);

// As unpack_archive, for several archives that form one directory, in this order. The limits apply to each archive.
[[nodiscard]] Result<std::vector<ArchiveSummary>> unpack_archives(const std::vector<std::filesystem::path>& archives,
                                                                  const std::filesystem::path& target,
                                                                  const ArchiveLimits& limits = {},
                                                                  Durability durability = Durability::kPower);

// Reads the archive and verifies its checksum, but not its entries. kInvalidArgument: corrupt.
[[nodiscard]] Result<ArchiveSummary> verify_archive(const std::filesystem::path& archive);

}  // namespace volador
