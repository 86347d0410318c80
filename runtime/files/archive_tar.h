// Converts an archive (directory_archive.h), or several that form one directory, to a tar stream in constant memory,
// for users with tar.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/result.h"

namespace volador {

// Reader that returns an archive as a tar stream. One thread.
class ArchiveTar {
 public:
  static constexpr size_t kPieceBytes = 256 << 10;

  // kInvalidArgument: not an archive; otherwise file system errors. Further archives are opened when needed.
  [[nodiscard]] static Result<ArchiveTar> open(const std::vector<std::filesystem::path>& archives);
  ~ArchiveTar();
  ArchiveTar(ArchiveTar&&) noexcept;
  ArchiveTar& operator=(ArchiveTar&&) noexcept;

  // Returns the next bytes of the tar file, slightly more than kPieceBytes at most; empty at its end. kInvalidArgument:
  // truncated or corrupt (discard the earlier bytes), or a path that is absolute or contains "..".
  [[nodiscard]] Result<std::string> next();

 private:
  class Impl;
  ArchiveTar();
  static Result<std::unique_ptr<Impl>> open_one(const std::filesystem::path& archive);

  std::unique_ptr<Impl> impl_;                  // Null: all archives were read.
  std::vector<std::filesystem::path> waiting_;  // Remaining archives, next one last.
};

}  // namespace volador
