// Options for making and retaining the checkpoints of a trial.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tune/loop/trial.h"

namespace volador::tune {

struct CheckpointOptions {
  int64_t frequency = 0;    // Steps between checkpoints; 0: no periodic checkpoints.
  bool at_end = false;      // Saves a checkpoint at the end of each trial that did not fail.
  int64_t num_to_keep = 0;  // Best checkpoints kept per trial, in addition to the last one. 0: all.
  std::string score_attribute =
      {};  // Metric that ranks the checkpoints; empty: the latest are the best. NaN and missing values rank last.
  Mode score_order = Mode::kMax;
};

// Removes the checkpoints that need not be kept from the list, which is sorted by step, and returns them.
std::vector<Checkpoint> retire_checkpoints(std::vector<Checkpoint>& checkpoints, const CheckpointOptions& options);

}  // namespace volador::tune
