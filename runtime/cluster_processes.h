// Detects a cluster's processes on this machine by their pid files.
#pragma once

#include <string_view>

#include "runtime/paths.h"

namespace volador {

// Whether a head that does not answer may come back: a head was started here since the last boot and has not ended
// normally (it was killed, or is starting), or a worker of the cluster runs here. `cluster` must be valid by
// check_name.
[[nodiscard]] bool is_head_expected(const Paths& paths, std::string_view cluster);

}  // namespace volador
