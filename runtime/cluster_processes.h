// The clusters of this machine by their folders, and their processes by pid files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/paths.h"

namespace volador {

// Every cluster that has a folder on this machine, sorted.
std::vector<std::string> local_clusters(const Paths& paths);
// Every node of the cluster that has a folder on this machine, sorted.
std::vector<std::string> local_nodes(const Paths& paths, std::string_view cluster);

// Whether a head that does not answer may come back: a head was started here since the last boot and has not ended
// normally (it was killed, or is starting), or a worker of the cluster runs here. `cluster` must be valid by
// check_name.
[[nodiscard]] bool is_head_expected(const Paths& paths, std::string_view cluster);

}  // namespace volador
