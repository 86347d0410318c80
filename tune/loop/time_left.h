// Estimate of a run's remaining time, with an interval, from the progress of its trials. Pure.
//
// Monte Carlo simulation of the rest of the run. A running trial takes its remaining steps: at most up to the limit,
// and no more than a survival curve over steps allows, given the step that it has reached. The curve is built from the
// steps at which trials ended and from the rungs of the scheduler. A step takes as long as the trial's own steps did; a
// trial that has not begun takes the pace of another one. Measured starts, checkpoints and ends are added, and trials
// wait for a slot. Each simulation draws the unknown quantities (chances at the rungs, paces, durations) anew, and the
// spread of the results is the interval.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/actor/session.h"

namespace volador::tune {

struct RunPace {
  enum class Place : uint8_t {
    kQueued,   // Waits for a slot; may have run before.
    kRunning,  // Holds a slot.
    kPaused,   // Waits for its scheduler to decide whether it continues.
    kEnded,    // Ended at its step by its scheduler, by a stop condition or because it was done.
    kLost,     // Ended otherwise: only the step that it reached is known.
  };
  struct Trial {
    Place place = Place::kQueued;
    int64_t step = 0;
    int64_t steps_seen = 0;  // Number of timed steps,
    double step_s = 0;       // their mean duration
    double step_s2 = 0;      // and their mean squared duration.
    double since_s = 0;      // For a running trial: time since its current step, start or end began.
    bool starting = false;   // Has not begun its first step.
    bool ending = false;     // Runs no more steps.
  };
  struct Rung {
    int64_t step = 0;
    double pass = 0.5;  // Fraction of trials that continue, by the scheduler's rule.
    int64_t bracket = 0;
    bool waits = false;  // Decides only when all trials of its bracket have arrived.
    bool decided = false;
    int64_t trials = 0;   // Trials of the bracket that have reached it
    int64_t awaited = 0;  // and that are still to reach it.
  };
  std::vector<Trial> trials;
  std::optional<int64_t> to_start = 0;              // Trials that do not exist yet; no value: unlimited.
  std::optional<int64_t> steps_max = {};            // Limit of each trial.
  std::vector<Rung> rungs = {};                     // By bracket, then step; empty: a trial may end at any step.
  bool copies = false;                              // Trials may become copies of others and then change their step.
  std::vector<double> starts_s = {}, stops_s = {};  // Measured durations; empty: taken as 0.
  double saving_of_step_s = 0;                      // Checkpoint time per step,
  double pausing_of_step_s = 0;                     // and time per step of pauses with the starts after them.
  int64_t slots = 0;                                // Trials that run at once; below 1: unknown.
  std::optional<double> budget_left_s = {};         // No value: the run has no time budget.
};

// No value: nothing runs, no step or trial duration is known, or the run has no end. O(draws × (continuing trials + at
// most 512 future ones)).
std::optional<TimeLeft> estimate_time_left(const RunPace& run);

}  // namespace volador::tune
