// Cleanup after a killed worker: its hosts, their sockets, its pid file, incomplete files.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>

#include "runtime/ids.h"
#include "runtime/paths.h"
#include "runtime/result.h"

namespace volador::worker {

// Result of the cleanup after a dead worker.
struct Leftovers {
  std::string node;
  pid_t worker = 0;            // The dead worker; 0: its pid file was damaged.
  size_t processes_ended = 0;  // Its hosts and their child processes.
};

// Ends processes in the node's control groups and those with the node's id in their environment, and removes the
// folders of its sockets, scratch files and spilled objects. The caller holds the node's lock, so that no worker of this
// name runs or starts. Returns the number of processes ended. kPermissionDenied: the socket folder is not owned by this
// user.
[[nodiscard]] Result<size_t> clear_leftovers(const Paths& paths, const NodePaths& node_paths, NodeId node);

// As clear_leftovers, for a dead worker, including its pid file. Nothing if a worker of this name runs or starts, or if
// the last one ended normally. Errors as clear_leftovers, or an unreadable node.json.
[[nodiscard]] Result<std::optional<Leftovers>> remove_leftovers(const Paths& paths, const std::string& cluster,
                                                                const std::string& node_name);

}  // namespace volador::worker
