// Unusual numbers for tests.
#pragma once

#include <limits>

namespace volador::tune {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace volador::tune
