// The version of this build, for messages and handshakes.
#pragma once

#include <string_view>

namespace volador {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace volador
