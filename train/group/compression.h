// How gradients travel between the ranks of a training run.
#pragma once

#include <cstdint>

namespace volador::train {

// Representation of gradients of float32 and float64 on their way; those of other types travel as they are.
enum class Compression : uint8_t {
  kNone,
  kHalf,      // float16: gradients above 65504 become infinite.
  kBFloat16,  // The range of float32 with 8 bits of precision.
  kPowerSgd,  // Low-rank factors of matrices; see power_sgd.h.
};

struct PowerSgdOptions {
  int64_t rank = 1;                 // Rows of the factors; at least 1. 1 to 4 are usual.
  int64_t start_step = 1000;        // Whole gradients travel in the steps before it; at least 0.
  double min_compression_rate = 2;  // A matrix travels whole unless its factors are this many times smaller; above 0.
  bool error_feedback = true;
  bool warm_start = true;  // The right basis comes from the step before; false: random in each step.
  uint64_t seed = 0;       // Equal on all ranks.
};

}  // namespace volador::train
