// Volador's settings: what volador.yaml, VOLADOR_* and the flags of `volador start` may say.
#pragma once

#include <span>

#include "runtime/config.h"

namespace volador {

inline constexpr int kDefaultPort = 6380;

// All of them, in the order in which help shows them.
std::span<const Setting> volador_settings();

}  // namespace volador
