#include "runtime/cluster_processes.h"

#include "runtime/machine.h"
#include "runtime/process_file.h"

namespace volador {
namespace {

namespace fs = std::filesystem;

constexpr size_t kRecordFileBytesMax = 4096;

// Whether the process ran since the last boot and has not removed its file, as processes that end normally do.
bool names_process_of_this_boot(const fs::path& file) {
  const auto text = read_file_limited(file, kRecordFileBytesMax);
  if (!text) return false;
  const auto record = parse_process_record(*text);
  const auto boot = boot_id();
  return record && boot && record->boot_id == *boot;
}

}  // namespace

bool is_head_expected(const Paths& paths, std::string_view cluster) {
  const ClusterPaths files = paths.cluster(cluster);
  if (names_process_of_this_boot(files.head().pid())) return true;
  std::error_code code;
  for (fs::directory_iterator node(files.nodes(), code), end; !code && node != end; node.increment(code)) {
    if (running_process(NodePaths{node->path()}.pid())) return true;
  }
  return false;
}

}  // namespace volador
