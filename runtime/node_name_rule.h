// Key of a label rule that looks at the name of a node instead of its labels; for the bundles of a placement group
// (GroupSpec.bundle_labels).
#pragma once

#include <string_view>

namespace volador {

inline constexpr std::string_view kNodeNameKey = "@name";

}  // namespace volador
