// Hartmann's function of six variables, optionally with fidelities, for tests and figures.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>

namespace volador::tune::testing {

using SixReals = std::array<double, 6>;  // Each in [0, 1].

inline constexpr SixReals kHartmannOptimum = {0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573};
inline constexpr double kHartmannLeast = -3.32237;  // Minimum value at that point, up to rounding.

// The four wells are shallower by `shallower` each.
inline double hartmann6(const SixReals& x, double shallower = 0) {
  constexpr double kDepth[4] = {1, 1.2, 3, 3.2};
  constexpr double kSteep[4][6] = {
      {10, 3, 17, 3.5, 1.7, 8}, {0.05, 10, 17, 0.1, 8, 14}, {3, 3.5, 1.7, 10, 17, 8}, {17, 8, 0.05, 10, 0.1, 14}};
  constexpr double kMiddle[4][6] = {{1312, 1696, 5569, 124, 8283, 5886},
                                    {2329, 4135, 8307, 3736, 1004, 9991},
                                    {2348, 1451, 3522, 2883, 3047, 6650},
                                    {4047, 8828, 8732, 5743, 1091, 381}};
  double value = 0;
  for (size_t i = 0; i < 4; ++i) {
    double sum = 0;
    for (size_t j = 0; j < 6; ++j) {
      const double apart = x[j] - 1e-4 * kMiddle[i][j];
      sum += kSteep[i][j] * apart * apart;
    }
    value -= (kDepth[i] - shallower) * std::exp(-sum);
  }
  return value;
}

// Bias of lower fidelities: MFHartmann of mf-prior-bench (Mallik et al., 2023, after Kandasamy et al., 2017).
struct MfSurface {
  const char* name;
  double bias;   // Wells are shallower by this amount at fidelity 1,
  double noise;  // and values worse by this factor times |z|, z normal; both decrease with the logarithm of the
                 // fidelity.
};
inline constexpr MfSurface kMfSurfaces[] = {
    {"default", 0.5, 0.1}, {"good", 2.5, 2}, {"moderate", 3, 3}, {"bad", 3.5, 4}, {"terrible", 4, 5}};

// Value at `fidelity`, from 1 to 100, where it equals Hartmann's function; `deviate`: z.
inline double mf_hartmann6(const MfSurface& surface, const SixReals& x, double fidelity, double deviate) {
  const double lacking = 1 - std::log(fidelity) / std::log(100.0);
  return hartmann6(x, surface.bias * lacking) + std::abs(deviate) * surface.noise * lacking;
}

}  // namespace volador::tune::testing
