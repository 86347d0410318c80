// The rungs of a halving search as its journal tells of them. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "tune/loop/decision_record.h"
#include "tune/loop/metrics.h"
#include "tune/results/experiment_journal.h"

namespace volador::tune {

struct JournalRung {
  int64_t bracket = 0;   // -1: there are none.
  double milestone = 0;  // Steps.
  double cutoff = std::numeric_limits<double>::quiet_NaN();  // Of the latest decision that had one.
  std::vector<DecisionRecord> members;  // The last decision about each trial there, with the last number that was compared; by arrival.
};

// By bracket, then milestone. None where the run's scheduler has no rungs.
std::vector<JournalRung> journal_rungs(const JournalContents& journal);

// As the scheduler would tell it: best first. `ended`: nobody arrives any more.
RungState state_of(const JournalRung& rung, Mode mode, bool ended);

}  // namespace volador::tune
