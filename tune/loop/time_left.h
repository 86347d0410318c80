// How long a run still takes: one estimate with an interval, from what its trials have done so far. Pure.
//
// The rest of the run is played through many times. A trial that runs takes the steps that are left to it: at most those up to the limit, and
// no more than a survival curve over steps allows, given the step that it has reached. The curve is made from the steps at which trials
// ended and from the rungs of the scheduler. A step takes as long as the trial's own steps did; a trial that has not begun takes the pace of
// another one. Starts, checkpoints and ends are added as they were measured, and trials wait for a place among the slots. Each
// time the unknown quantities (chances at the rungs, paces, durations) are drawn anew, so that the spread of the results is the interval.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/actor/session.h"

namespace volador::tune {

struct RunPace {
  enum class Place : uint8_t {
    kQueued,   // It waits for a place; it may have run before.
    kRunning,  // It has one.
    kPaused,   // Its scheduler decides whether it goes on from its step.
    kEnded,    // At its step, by its scheduler or a stop condition, or because it was done.
    kLost,     // It ended otherwise: nothing is known but that it had reached its step.
  };
  struct Trial {
    Place place = Place::kQueued;
    int64_t step = 0;
    int64_t steps_seen = 0;  // Whose seconds are known,
    double step_s = 0;       // with this mean
    double step_s2 = 0;      // and this mean of their squares.
    double since_s = 0;      // Of a running one: since its step, start or end began.
    bool starting = false;   // It runs no step yet.
    bool ending = false;     // It runs none any more.
  };
  struct Rung {
    int64_t step = 0;
    double pass = 0.5;  // Share that goes on, as the scheduler's rule says.
    int64_t bracket = 0;
    bool waits = false;    // It decides when all trials of its bracket are there.
    bool decided = false;
    int64_t trials = 0;    // Of its bracket, that have reached it,
    int64_t awaited = 0;   // and that are to reach it.
  };
  std::vector<Trial> trials;
  std::optional<int64_t> to_start = 0;     // Trials that do not exist yet; none: no end of them.
  std::optional<int64_t> steps_max = {};   // Of each trial.
  std::vector<Rung> rungs = {};            // By bracket, then step; of none a trial may end at any step.
  bool copies = false;                     // Trials become copies of others, which may be further or less far.
  std::vector<double> starts_s = {}, stops_s = {};  // Measured ones; none: taken as 0.
  double saving_of_step_s = 0;             // Checkpoints, divided by all steps,
  double pausing_of_step_s = 0;            // and pauses with the starts after them.
  int64_t slots = 0;                       // Trials that run at once; below 1: not known.
  std::optional<double> budget_left_s = {};  // None: the run has no time budget.
};

// No value: nothing runs, nothing is known of how long a step or a trial takes, or the run has no end.
// O(draws × (trials that go on + at most 512 to come)).
std::optional<TimeLeft> estimate_time_left(const RunPace& run);

}  // namespace volador::tune
