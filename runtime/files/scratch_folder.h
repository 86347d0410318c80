// A folder for temporary files, which is removed with everything in it.
#pragma once

#include <filesystem>
#include <string_view>

#include "runtime/result.h"

namespace volador {

class ScratchFolder {
 public:
  // In the folder for temporary files of the machine; its name has `purpose`. kUnavailable: it cannot be made.
  [[nodiscard]] static Result<ScratchFolder> create(std::string_view purpose);
  ScratchFolder(ScratchFolder&& other) noexcept;
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit ScratchFolder(std::filesystem::path path);
  std::filesystem::path path_;
};

}  // namespace volador
