// Definitions of Volador's settings in volador.yaml, VOLADOR_* and the flags of `volador start`.
#pragma once

#include <span>
#include <string>

#include "runtime/config.h"
#include "runtime/result.h"

namespace volador {

inline constexpr int kDefaultPort = 6380;

// All settings, in the order of the help text.
std::span<const Setting> volador_settings();

// Returns the token: `token` or the contents of `token_file`, whichever has the more direct source; empty if neither is
// set. Errors of reading the file name the setting's origin.
[[nodiscard]] Result<std::string> token_setting(const Config& config);
// Whether the settings name a cluster of this machine instead of a head address.
bool is_cluster_named(const Config& config);

}  // namespace volador
