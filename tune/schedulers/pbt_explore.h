// Perturbation of configurations in population based training. Pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "runtime/random.h"
#include "runtime/result.h"
#include "tune/space/config.h"
#include "tune/space/space.h"

namespace volador::tune {

enum class PbtRule : uint8_t {
  kClipped,  // Values stay in their domains; a number that a factor would leave unchanged is moved.
  kRay,      // Numbers are multiplied and integers truncated: 1 × 0.8 is 0, and a real may leave its domain.
};

struct PbtExploreOptions {
  Space mutations;                     // Domains of the perturbed values, by their paths in the configuration.
  double resample_probability = 0.25;  // Probability, per value, of a new draw instead of a perturbation.
  std::array<double, 2> factors = {1.2, 0.8};
  std::function<Config(const Config&)> custom = {};  // Applied last; may throw.
  PbtRule rule = PbtRule::kClipped;
};

// kInvalidArgument: mutations and custom are both absent, a mutation is a constant or a grid_search, or a number is out
// of range; names it.
[[nodiscard]] Result<void> validate(const PbtExploreOptions& options);

// Moves an option of a choice to a neighbour and multiplies a number by one of the factors. Draws the value anew if it
// is absent from the configuration or not among the options, or with resample_probability. `draw` numbers the call: the
// same number gives the same configuration. kApplication: custom or a sample_from function threw.
[[nodiscard]] Result<Config> explore(const PbtExploreOptions& options, Config config, uint64_t seed, int64_t draw);

// Draws the mutated values that the configuration lacks. Errors as above.
[[nodiscard]] Result<Config> complete(const PbtExploreOptions& options, Config config, uint64_t seed, int64_t draw);

}  // namespace volador::tune
