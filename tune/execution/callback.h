// User callbacks of a run, named as in Ray Tune:
//
//   class Printer : public tune::Callback {
//     void on_trial_result(const tune::Trial& trial, const tune::Metrics& result) override { … }
//   };
//   tune::run<TrainDigits>({…, .callbacks = {std::make_shared<Printer>()}});
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "tune/loop/metrics.h"
#include "tune/loop/trial.h"
#include "tune/results/analysis.h"

namespace volador::tune {

struct ExperimentInfo {
  std::string name;
  std::filesystem::path directory;  // Results directory.
  std::optional<int64_t> trials;    // Total number; no value: unlimited.
  bool resumed = false;             // The run was resumed; earlier events are not reported again.
};

// All calls of a run are made on one dedicated thread, in the order of events; decisions do not wait for them, and
// trials are passed in their state at that time. An exception from a method is reported once and has no other effect.
// tune::run returns after the last call. A callback slower than the results misses some on_trial_result calls (at most
// 65,536 are queued), which is reported.
class Callback {
 public:
  virtual ~Callback();

  // Called first.
  virtual void setup(const ExperimentInfo& /*experiment*/) {}
  // An attempt of the trial has started, with its setup.
  virtual void on_trial_start(const Trial& /*trial*/) {}
  // Called directly after on_trial_start if the attempt continues from a checkpoint.
  virtual void on_trial_restore(const Trial& /*trial*/, const Checkpoint& /*checkpoint*/) {}
  // Called once per step of a trial, with training_iteration, time_this_iter_s, time_total_s.
  virtual void on_trial_result(const Trial& /*trial*/, const Metrics& /*result*/) {}
  // The checkpoint is complete and on the driver's disk, at `location` in the directory of the run.
  virtual void on_checkpoint(const Trial& /*trial*/, const Checkpoint& /*checkpoint*/) {}
  // An attempt failed (Trial::error), and another one follows.
  virtual void on_trial_recover(const Trial& /*trial*/) {}
  // The trial failed permanently: Trial::error.
  virtual void on_trial_error(const Trial& /*trial*/) {}
  // The trial ended without failing: finished, stopped by its scheduler, or interrupted.
  virtual void on_trial_complete(const Trial& /*trial*/) {}
  // Called last, even if the run ended with an error.
  virtual void on_experiment_end(const Analysis& /*analysis*/) {}
};

}  // namespace volador::tune
