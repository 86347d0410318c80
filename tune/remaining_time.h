// How long a run still takes, from how long its trials have taken. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "tune/trial.h"

namespace volador::tune {

struct RunSoFar {
  std::vector<double> ended_s;  // Of trials that finished or were stopped: seconds that each took. Failed and
                                // interrupted ones say nothing.
  std::vector<double> going_s;  // Of those that run or are paused: seconds that each has taken.
  std::optional<int64_t> to_start = std::nullopt;  // Trials that have not begun; none: no end of them.
  int64_t slots = 0;                               // So many run at once; 0: not known.
  std::optional<std::chrono::nanoseconds> budget_left = std::nullopt;  // None: the run has no time budget.
};

// How long trials take in all is estimated from those that ended and, as lower bounds, from those that go on (Kaplan
// and Meier, 1958), so that the first ones to end, which are the short ones, do not pass for all. What is left of the
// trials that go on, each given how long it has gone on already, and the trials to come are shared by the slots; no
// less than the longest of those that go on, and no more than the budget has left. No value: there is no ground yet
// (fewer than three trials have ended, no slot is known), or no end. O(trials × log trials).
std::optional<std::chrono::nanoseconds> remaining_time(const RunSoFar& run);

// Of these trials; `to_start` beside those that wait among them.
RunSoFar run_so_far(const std::vector<const Trial*>& trials, std::optional<int64_t> to_start);

}  // namespace volador::tune
