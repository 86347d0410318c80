// Which checkpoints of an experiment stay when it ends or its policy changes.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace volador::experiments {

struct CheckpointRetention {
  int64_t save_experiment_best = 0;  // Best checkpoints of the experiment.
  int64_t save_trial_best = 1;       // Best checkpoints of each trial.
  int64_t save_trial_latest = 1;     // Latest checkpoints of each trial, with or without a validation.
  bool smaller_is_better = true;
};

struct CheckpointEntry {
  std::string id;
  int64_t trial = 0;
  std::optional<double> metric = std::nullopt;  // That its validation gave. NaN counts as none.
  int64_t validation = 0;                       // Among equal metrics, the lower one is better.
  bool registered = false;                      // A version in the model registry.
  bool warm_start = false;                      // A trial started from it.
};

// Why a checkpoint stays; all false: it is to be deleted.
struct CheckpointVerdict {
  bool experiment_best = false;
  bool trial_best = false;
  bool trial_latest = false;
  bool registered = false;
  bool warm_start = false;

  bool stays() const { return experiment_best || trial_best || trial_latest || registered || warm_start; }
  bool operator==(const CheckpointVerdict&) const = default;
};

// Returns a verdict for each checkpoint. `checkpoints` are in the order in which they were saved. Registered checkpoints
// and those of warm starts stay, and take part in the ranking like the others.
std::vector<CheckpointVerdict> judge_checkpoints(const std::vector<CheckpointEntry>& checkpoints,
                                                 const CheckpointRetention& policy);

}  // namespace volador::experiments
