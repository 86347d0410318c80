// How much a test repeats.
#pragma once

namespace volador {

// The sanitizers look at the same code whatever the seed, and take ten times as long for it.
template <class Count>
constexpr Count how_many([[maybe_unused]] Count usually, [[maybe_unused]] Count under_a_sanitizer) {
#ifdef VOLADOR_SANITIZED
  return under_a_sanitizer;
#else
  return usually;
#endif
}

}  // namespace volador
