#include "worker/hosts/leftovers.h"

#include <unistd.h>

#include "runtime/process_file.h"
#include "runtime/random.h"
#include "worker/hosts/children.h"
#include "worker/hosts/host_groups.h"
#include "worker/hosts/host_sockets.h"
#include "worker/shell/node_identity.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kPatience{2};  // Killed processes are gone far sooner, unless a disk hangs.
constexpr size_t kPidFileBytesMax = 256;

}  // namespace

Result<size_t> clear_leftovers(const Paths& paths, const NodePaths& node_paths, NodeId node) {
  // First those that cannot escape by forks; then templates, and hosts of a worker that had no groups.
  size_t ended = remove_groups(node_paths.groups(), kPatience);
  ended += kill_by_environment("VOLADOR_NODE_ID", to_string(node), kPatience);
  std::error_code ignored;
  if (const fs::path run = paths.run_of(node); fs::exists(run, ignored)) {
    // It may be in /tmp, where other users can create links.
    VOLADOR_TRY(make_run_directory(paths.run(), ::getuid()));
    fs::remove_all(run, ignored);
  }
  remove_socket_folder(paths, node);
  fs::remove_all(node_paths.scratch(), ignored);
  fs::remove_all(node_paths.spill(), ignored);
  remove_half_written(node_paths.directory);
  return ended;
}

Result<std::optional<Leftovers>> remove_leftovers(const Paths& paths, const std::string& cluster,
                                                  const std::string& node_name) {
  const NodePaths files = paths.cluster(cluster).node(node_name);
  // A worker that ends normally removes its pid file last.
  auto text = read_file_limited(files.pid(), kPidFileBytesMax);
  if (!text && text.error().code == ErrorCode::kNotFound) return std::nullopt;
  SystemRandom random;
  auto node = claim_node(files, node_name, random);
  if (!node && node.error().code == ErrorCode::kUnavailable) return std::nullopt;  // It is running or starting.
  if (!node) return make_error(node.error());
  if (running_process(files.pid())) return std::nullopt;

  auto ended = clear_leftovers(paths, files, node->id);
  if (!ended) return make_error(ended.error());
  Leftovers left{.node = node_name, .processes_ended = *ended};
  if (text) {
    if (auto record = parse_process_record(*text)) left.worker = record->pid;
  }
  std::error_code ignored;
  fs::remove(files.pid(), ignored);
  return left;
}

}  // namespace volador::worker
