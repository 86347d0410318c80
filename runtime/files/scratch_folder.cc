#include "runtime/files/scratch_folder.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace volador {

namespace fs = std::filesystem;

Result<ScratchFolder> ScratchFolder::create(std::string_view purpose) {
  std::error_code failed;
  std::string path = (fs::temp_directory_path(failed) / fmt::format("volador-{}-XXXXXX", purpose)).string();
  if (failed || ::mkdtemp(path.data()) == nullptr) {
    return make_error(ErrorCode::kUnavailable, fmt::format("no temporary folder can be made ({}): {}", path,
                                                           failed ? failed.message() : std::strerror(errno)));
  }
  return ScratchFolder(path);
}

ScratchFolder::ScratchFolder(fs::path path) : path_(std::move(path)) {}
ScratchFolder::ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace volador
