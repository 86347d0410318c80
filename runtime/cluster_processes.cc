#include "runtime/cluster_processes.h"

#include <algorithm>

#include "runtime/machine.h"
#include "runtime/process_file.h"

namespace volador {
namespace {

namespace fs = std::filesystem;

constexpr size_t kRecordFileBytesMax = 4096;

std::vector<std::string> folders_in(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error))
    if (entry->is_directory(error)) names.push_back(entry->path().filename().native());
  std::sort(names.begin(), names.end());
  return names;
}

// Whether the process ran since the last boot and has not removed its file, as processes that end normally do.
bool names_process_of_this_boot(const fs::path& file) {
  const auto text = read_file_limited(file, kRecordFileBytesMax);
  if (!text) return false;
  const auto record = parse_process_record(*text);
  const auto boot = boot_id();
  return record && boot && record->boot_id == *boot;
}

}  // namespace

std::vector<std::string> local_clusters(const Paths& paths) { return folders_in(paths.clusters()); }

std::vector<std::string> local_nodes(const Paths& paths, std::string_view cluster) {
  return folders_in(paths.cluster(cluster).nodes());
}

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
