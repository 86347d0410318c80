// Exponential, logarithm and normal distribution in single precision without branches, so that loops over arrays are
// vectorised; relative error about 1e-6, sufficient for ranking.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace volador::tune {

// Returns 0 below -87.
inline float fast_exp(float x) {
  constexpr float kShift = 12582912.0F;  // 1.5 × 2^23: adding it rounds to an integer, which is then in the low bits.
  const float clamped = std::max(std::min(x, 88.0F), -87.0F);
  const float shifted = clamped * 1.44269504F + kShift;
  const float whole = shifted - kShift;
  const float rest = (clamped - whole * 0.693359375F) + whole * 2.12194440e-4F;
  const float series =
      1 +
      rest * (1 + rest * (0.5F + rest * (1.0F / 6 + rest * (1.0F / 24 + rest * (1.0F / 120 + rest * (1.0F / 720))))));
  const float power = std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) + 127U) << 23);
  return x < -87.0F ? 0.0F : series * power;
}

// Requires a positive, normal number.
inline float fast_log(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x) - 0x3f3504f3U;  // 0x3f3504f3: bits of the square root of 1/2.
  const auto exponent = static_cast<float>(static_cast<int32_t>(bits) >> 23);
  const float mantissa = std::bit_cast<float>((bits & 0x007fffffU) + 0x3f3504f3U);
  const float s = (mantissa - 1) / (mantissa + 1);
  const float s2 = s * s;
  return exponent * 0.69314718F + 2 * s * (1 + s2 * (1.0F / 3 + s2 * (0.2F + s2 * (1.0F / 7 + s2 * (1.0F / 9)))));
}

// Returns the upper tail probability beyond z >= 0 of the standard normal distribution: absolute error 2e-7 (Abramowitz
// and Stegun 7.1.26), relative error up to 0.4 for z up to 13; beyond that it is 0.
inline float fast_normal_tail(float z) {
  const float x = z * 0.70710678F;
  const float t = 1 / (1 + 0.3275911F * x);
  const float series =
      t * (0.254829592F + t * (-0.284496736F + t * (1.421413741F + t * (-1.453152027F + t * 1.061405429F))));
  return 0.5F * series * fast_exp(-x * x);
}

// Returns the probability of [low, high] under the standard normal distribution. Far from 0 it is the difference of two
// tails: a difference of distribution functions would be the rounding error of numbers near 1.
inline float fast_normal_mass(float low, float high) {
  const float below = fast_normal_tail(std::abs(low)), above = fast_normal_tail(std::abs(high));
  return low * high > 0 ? std::abs(below - above) : 1 - below - above;
}

}  // namespace volador::tune
