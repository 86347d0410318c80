// What the user's program is told as a run goes on, in Ray Tune's words:
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
  std::filesystem::path directory;  // Of its results.
  std::optional<int64_t> trials;    // In all; no value: no end.
  bool resumed = false;             // It goes on; what came before is not told again.
};

// All calls of a run come on one thread of their own, in the order of what happened: no decision waits for them, and
// trials are as they were then. What a method throws is said once and changes nothing else. tune::run returns when all
// were told; one that takes longer than results come misses some of on_trial_result (65,536 of them wait), which is
// said.
class Callback {
 public:
  virtual ~Callback();

  // First.
  virtual void setup(const ExperimentInfo& /*experiment*/) {}
  // An attempt of the trial runs, by its setup.
  virtual void on_trial_start(const Trial& /*trial*/) {}
  // The same, right behind it, where it goes on from a checkpoint.
  virtual void on_trial_restore(const Trial& /*trial*/, const Checkpoint& /*checkpoint*/) {}
  // Each step of a trial once, with training_iteration, time_this_iter_s, time_total_s.
  virtual void on_trial_result(const Trial& /*trial*/, const Metrics& /*result*/) {}
  // Its checkpoint is complete and on the driver's disk, at `location` below the directory of the run.
  virtual void on_checkpoint(const Trial& /*trial*/, const Checkpoint& /*checkpoint*/) {}
  // An attempt failed (Trial::error), and another one follows.
  virtual void on_trial_recover(const Trial& /*trial*/) {}
  // The trial failed for good: Trial::error.
  virtual void on_trial_error(const Trial& /*trial*/) {}
  // The trial ended otherwise: finished, stopped by its scheduler, interrupted.
  virtual void on_trial_complete(const Trial& /*trial*/) {}
  // Last; also of a run that ended by an error.
  virtual void on_experiment_end(const Analysis& /*analysis*/) {}
};

}  // namespace volador::tune
