// Values reported by a trial, by step: snapshot format of schedulers that compare trials step by step.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tune/space/config.h"

namespace volador::tune {

using StepValues = std::vector<std::pair<int64_t, double>>;  // Ascending steps.

inline Config to_config(const StepValues& values) {
  Config list = Config::list({});
  for (const auto& [step, value] : values) list.push_back(Config::list({step, value}));
  return list;
}

// No value: a step is below 1, above `step_max`, or not greater than its predecessor.
inline std::optional<StepValues> step_values_from(const Config& list, int64_t step_max) {
  StepValues values;
  for (const Config& pair : list.items()) {
    const int64_t step = pair[0].integer();
    if (step < 1 || step > step_max || (!values.empty() && values.back().first >= step)) return std::nullopt;
    values.emplace_back(step, pair[1].real());
  }
  return values;
}

}  // namespace volador::tune
