// Folder of the sockets of a node's hosts.
#pragma once

#include <filesystem>

#include "runtime/ids.h"
#include "runtime/paths.h"

namespace volador::worker {

// Creates the node's folder in paths.memory_run() if its run folder is on a disk: there a socket's bind takes 0.3 ms
// while hosts come and go, because ext4 skips the inodes of recently removed files. Otherwise, or if that fails,
// returns the run folder, which must exist.
[[nodiscard]] std::filesystem::path make_socket_folder(const Paths& paths, const NodeId& node);

// Removes the folder of make_socket_folder with its contents; for a cluster with its own memory_run, the folders of all
// its nodes.
void remove_socket_folder(const Paths& paths, const NodeId& node);
void remove_socket_folders(const Paths& paths);

}  // namespace volador::worker
