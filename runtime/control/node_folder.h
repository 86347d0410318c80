// The folder of a node in which processes of its jobs find what they share.
#pragma once

#include <filesystem>

namespace volador::control {

// The run folder of the node to which this process belongs. Empty: it belongs to none that it can reach, or others may
// write to the folder.
[[nodiscard]] std::filesystem::path own_node_folder();

}  // namespace volador::control
