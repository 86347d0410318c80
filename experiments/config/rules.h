// The last check: what keys of different parts of a complete configuration say together.
#pragma once

#include <cstdint>

#include "experiments/config/finding.h"
#include "runtime/yaml/value.h"

namespace volador::experiments {

// Rules of the pool in which the trials run.
struct PoolRules {
  int64_t slots_multiple = 1;  // slots_per_trial is a multiple of it: 8 where trials get whole machines of 8 GPUs.
  // Whether global_batch_size must be divisible by slots_per_trial. Otherwise the remainder is a warning: each GPU gets
  // the rounded-down share, as in Determined.
  bool needs_exact_batches = false;
};

// `defaulted`: with_defaults(); parts that have errors may be null.
void check_rules(const yaml::Value& defaulted, const PoolRules& pool, Findings& findings);

}  // namespace volador::experiments
