// Number of trials by status.
#pragma once

#include <cstdint>
#include <optional>

#include "tune/loop/trial.h"

namespace volador::tune {

struct TrialCounts {
  int64_t by_status[kTrialStatuses] = {};
  int64_t operator[](TrialStatus status) const { return by_status[static_cast<int>(status)]; }
  int64_t known = 0;             // Sum of by_status.
  std::optional<int64_t> total;  // Planned number of trials; no value: unlimited.
};

}  // namespace volador::tune
