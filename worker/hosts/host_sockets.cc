#include "worker/hosts/host_sockets.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "runtime/log.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;

bool is_in_memory(const fs::path& folder) {
  struct statfs about {};
  if (::statfs(folder.c_str(), &about) != 0) return false;
  return about.f_type == TMPFS_MAGIC || about.f_type == RAMFS_MAGIC;
}

// Its name in /dev/shm is predictable: another user may have created a link there.
bool is_own_folder(const fs::path& folder) {
  struct stat about {};
  return ::lstat(folder.c_str(), &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == ::getuid();
}

}  // namespace

fs::path make_socket_folder(const Paths& paths, const NodeId& node) {
  const fs::path run = paths.run_of(node);
  if (paths.memory_run().empty() || is_in_memory(run) || !is_in_memory(paths.memory_run().parent_path())) return run;
  const fs::path folder = paths.memory_run_of(node);
  for (const fs::path& each : {paths.memory_run(), folder}) {
    if (const auto made = make_run_directory(each, ::getuid()); !made) {
      log::warn("worker", "sockets of hosts lie on a disk",
                {{"folder", run.string()}, {"reason", made.error().message}});
      return run;
    }
  }
  return folder;
}

void remove_socket_folder(const Paths& paths, const NodeId& node) {
  if (paths.memory_run().empty() || !is_own_folder(paths.memory_run())) return;
  std::error_code ignored;
  fs::remove_all(paths.memory_run_of(node), ignored);
  ::rmdir(paths.memory_run().c_str());  // Succeeds if no other node uses the folder.
}

void remove_socket_folders(const Paths& paths) {
  if (paths.memory_run().empty() || !is_own_folder(paths.memory_run())) return;
  std::error_code ignored;
  fs::remove_all(paths.memory_run(), ignored);
}

}  // namespace volador::worker
