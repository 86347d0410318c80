// Arithmetic shared by the code that draws values of a space.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "runtime/random.h"

namespace volador::tune {

inline constexpr double kBelowOne = 0x1.fffffffffffffp-1;  // The largest double below 1.

// Division rounded towards minus infinity and plus infinity; b must not be 0.
inline int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }
inline int64_t ceil_divide(int64_t a, int64_t b) { return -floor_divide(-a, b); }

// One step of splitmix64 (Steele, Lea, Flood 2014): a bijection whose bits look independent.
inline uint64_t mixed(uint64_t z) {
  z += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// Draws a standard normal deviate from two uniform numbers (Box and Muller, 1958).
inline double normal_deviate(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.real()));
  return radius * std::cos(2 * std::numbers::pi * random.real());
}

}  // namespace volador::tune
