#include "worker/hosts/warm_processes.h"

#include <system_error>

#include "runtime/process_file.h"

namespace volador::worker {

bool is_warm_process(const std::filesystem::path& folder, pid_t pid) {
  if (folder.empty()) return false;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    if (at->path().extension() != ".pid") continue;
    const auto record = running_process(at->path());
    if (record && record->pid == pid) return true;
  }
  return false;
}

}  // namespace volador::worker
