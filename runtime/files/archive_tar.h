// An archive (directory_archive.h), or several that make one directory, as a tar file, piece by piece in constant memory: for people, who have tar.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/result.h"

namespace volador {

class ArchiveTar {
 public:
  static constexpr size_t kPieceBytes = 256 << 10;

  // kInvalidArgument: no archive; else of the file system. Later ones are opened when it is their turn.
  [[nodiscard]] static Result<ArchiveTar> open(const std::vector<std::filesystem::path>& archives);
  ~ArchiveTar();
  ArchiveTar(ArchiveTar&&) noexcept;
  ArchiveTar& operator=(ArchiveTar&&) noexcept;

  // The next bytes of the tar file, somewhat more than kPieceBytes at most; empty at its end. kInvalidArgument: torn or corrupt (what came
  // before does not count then), or a path that is absolute or has "..".
  [[nodiscard]] Result<std::string> next();

 private:
  class Impl;
  ArchiveTar();
  static Result<std::unique_ptr<Impl>> open_one(const std::filesystem::path& archive);

  std::unique_ptr<Impl> impl_;                  // Null: all were read.
  std::vector<std::filesystem::path> waiting_;  // The next one last.
};

}  // namespace volador
