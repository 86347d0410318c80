// How population based training changes a configuration. A function of its arguments.
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
  kClipped,  // Values stay in their domains; a number that a factor cannot move is moved.
  kRay,      // Numbers are multiplied, integers cut: 1 × 0.8 is 0, a real may leave its domain.
};

struct PbtExploreOptions {
  Space mutations;                    // Domains of what changes, at the paths of the configuration.
  double resample_probability = 0.25; // Of each of them: drawn anew instead of moved.
  std::array<double, 2> factors = {1.2, 0.8};
  std::function<Config(const Config&)> custom = {};  // Has the last word; it may throw.
  PbtRule rule = PbtRule::kClipped;
};

// kInvalidArgument: mutations and custom are both absent, a mutation is a constant or a grid_search, a number is out of range; names it.
[[nodiscard]] Result<void> validate(const PbtExploreOptions& options);

// Options of a choice move to a neighbour, numbers are multiplied by one of the factors; both are drawn anew where they are absent from the
// configuration, not among the options, or the dice say so. `draw` numbers the call: the same one gives the same configuration.
// kApplication: custom threw, or a function of sample_from.
[[nodiscard]] Result<Config> explore(const PbtExploreOptions& options, Config config, uint64_t seed, int64_t draw);

// What of the mutations the configuration lacks, drawn. Errors as above.
[[nodiscard]] Result<Config> complete(const PbtExploreOptions& options, Config config, uint64_t seed, int64_t draw);

}  // namespace volador::tune
