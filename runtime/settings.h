// Volador's settings: what volador.yaml, VOLADOR_* and the flags of `volador start` may say.
#pragma once

#include <span>
#include <string>

#include "runtime/config.h"
#include "runtime/result.h"

namespace volador {

inline constexpr int kDefaultPort = 6380;

// All of them, in the order in which help shows them.
std::span<const Setting> volador_settings();

// The token of the settings: `token` or what the file of `token_file` holds, whichever is given more directly; empty where neither is.
// Errors of reading the file name the setting's place.
[[nodiscard]] Result<std::string> token_setting(const Config& config);
// Whether the settings ask for a cluster of this machine by its name, and not for a head by its address.
bool is_cluster_named(const Config& config);

}  // namespace volador
