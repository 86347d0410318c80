// Number of repetitions of a test.
#pragma once

namespace volador {

// The sanitizers see the same code for every seed and take ten times as long.
template <class Count>
constexpr Count how_many([[maybe_unused]] Count usually, [[maybe_unused]] Count under_a_sanitizer) {
#ifdef VOLADOR_SANITIZED
  return under_a_sanitizer;
#else
  return usually;
#endif
}

}  // namespace volador
