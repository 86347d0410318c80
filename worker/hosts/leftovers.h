// What a worker that was killed could not take with it: its hosts, their sockets, its pid file, half-written files.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>

#include "runtime/ids.h"
#include "runtime/paths.h"
#include "runtime/result.h"

namespace volador::worker {

struct Leftovers {
  std::string node;
  pid_t worker = 0;            // The dead one; 0: its pid file was damaged.
  size_t processes_ended = 0;  // Its hosts and what they had started.
};

// Ends what carries the node's id in its environment, removes the folders of its sockets, scratch and spilled objects. The
// caller holds the node's lock, so that no worker of this name runs or starts. Returns the number of processes ended.
// kPermissionDenied: the folder of sockets is not this user's.
[[nodiscard]] Result<size_t> clear_leftovers(const Paths& paths, const NodePaths& node_paths, NodeId node);

// The same for a worker that is dead, with its pid file; nothing where one of this name runs or starts, or where the
// last one ended in order. Errors as clear_leftovers, or a node.json that cannot be read.
[[nodiscard]] Result<std::optional<Leftovers>> remove_leftovers(const Paths& paths, const std::string& cluster,
                                                                const std::string& node_name);

}  // namespace volador::worker
