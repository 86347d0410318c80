// Which checkpoints of a trial are made and kept.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tune/loop/trial.h"

namespace volador::tune {

struct CheckpointOptions {
  int64_t frequency = 0;    // Steps between checkpoints; 0: none on the way.
  bool at_end = false;      // One at the end of each trial that did not fail.
  int64_t num_to_keep = 0;  // The best of each trial, and its last one besides, to resume from. 0: all.
  std::string score_attribute =
      {};  // Metric that says which are best; empty: the latest are. NaN and missing rank last.
  Mode score_order = Mode::kMax;
};

// Removes from the list, which is sorted by step, those that need not be kept any more, and returns them.
std::vector<Checkpoint> retire_checkpoints(std::vector<Checkpoint>& checkpoints, const CheckpointOptions& options);

}  // namespace volador::tune
