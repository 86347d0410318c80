#include "runtime/make_directory.h"

#include <sys/stat.h>

#include <cerrno>

#include "runtime/paths.h"

namespace volador {

namespace fs = std::filesystem;

Result<void> make_directory(const fs::path& directory, mode_t mode) {
  struct stat status {};
  if (::stat(directory.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return {};
    return make_error(file_error("make the folder", directory, ENOTDIR));
  }
  if (errno != ENOENT) return make_error(file_error("make the folder", directory, errno));
  if (directory.has_parent_path() && directory.parent_path() != directory)
    VOLADOR_TRY(make_directory(directory.parent_path(), mode));
  // Another process may create it concurrently.
  if (::mkdir(directory.c_str(), mode) != 0 && errno != EEXIST)
    return make_error(file_error("make the folder", directory, errno));
  return {};
}

}  // namespace volador
