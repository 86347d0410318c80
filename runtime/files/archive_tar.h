// An archive (directory_archive.h) as a tar file, piece by piece in constant memory: for people, who have tar.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "runtime/result.h"

namespace volador {

class ArchiveTar {
 public:
  static constexpr size_t kPieceBytes = 256 << 10;

  // kInvalidArgument: no archive; else of the file system.
  [[nodiscard]] static Result<ArchiveTar> open(const std::filesystem::path& archive);
  ~ArchiveTar();
  ArchiveTar(ArchiveTar&&) noexcept;
  ArchiveTar& operator=(ArchiveTar&&) noexcept;

  // The next bytes of the tar file, somewhat more than kPieceBytes at most; empty at its end. kInvalidArgument: torn or corrupt (what came
  // before does not count then), or a path that is absolute or has "..".
  [[nodiscard]] Result<std::string> next();

 private:
  class Impl;
  explicit ArchiveTar(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador
