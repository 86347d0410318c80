// Which processes of a cluster run on this machine, by the files that name them.
#pragma once

#include <string_view>

#include "runtime/paths.h"

namespace volador {

// Whether the cluster has not been stopped, so that a head that does not answer may come back: a head was started here
// since the machine booted and did not end in order (it was killed, or is about to answer), or a worker of the cluster
// runs here. `cluster` passed check_name.
[[nodiscard]] bool is_head_expected(const Paths& paths, std::string_view cluster);

}  // namespace volador
