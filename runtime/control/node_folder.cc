#include "runtime/control/node_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "runtime/ids.h"
#include "runtime/paths.h"

namespace volador::control {

std::filesystem::path own_node_folder() {
  const char* text = std::getenv("VOLADOR_NODE_ID");
  const auto node = parse_id<NodeId>(text == nullptr ? "" : text);
  const auto paths = Paths::from(PathEnvironment::of_this_process());
  if (!node || !paths) return {};
  const std::filesystem::path folder = paths->run_of(*node);
  struct stat info {};
  const bool is_own = ::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
                      (info.st_mode & 0022) == 0;
  return is_own ? folder : std::filesystem::path();
}

}  // namespace volador::control
