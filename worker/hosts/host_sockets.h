// Where the sockets of a node's hosts lie.
#pragma once

#include <filesystem>

#include "runtime/ids.h"
#include "runtime/paths.h"

namespace volador::worker {

// The node's folder of paths.memory_run(), made now, where its run folder lies on a disk: there the bind of a socket
// takes 0.3 ms while hosts come and go, because ext4 looks past the numbers of all files that were just removed.
// Otherwise, and where it cannot be made in memory, the run folder, which must exist.
[[nodiscard]] std::filesystem::path make_socket_folder(const Paths& paths, const NodeId& node);

// What make_socket_folder made in memory, with what lies there; and of a cluster whose memory_run is its own, of all
// its nodes.
void remove_socket_folder(const Paths& paths, const NodeId& node);
void remove_socket_folders(const Paths& paths);

}  // namespace volador::worker
