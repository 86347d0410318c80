// How many trials there are of each status.
#pragma once

#include <cstdint>
#include <optional>

#include "tune/loop/trial.h"

namespace volador::tune {

struct TrialCounts {
  int64_t by_status[kTrialStatuses] = {};
  int64_t operator[](TrialStatus status) const { return by_status[static_cast<int>(status)]; }
  int64_t known = 0;             // Their sum.
  std::optional<int64_t> total;  // How many there will be; no value: no end.
};

}  // namespace volador::tune
