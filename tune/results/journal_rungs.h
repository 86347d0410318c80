// Reconstructs the rungs of a halving search from its journal. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "tune/loop/decision_record.h"
#include "tune/loop/metrics.h"
#include "tune/results/experiment_journal.h"

namespace volador::tune {

struct JournalRung {
  int64_t bracket = 0;                                       // -1: no brackets.
  double milestone = 0;                                      // Steps.
  double cutoff = std::numeric_limits<double>::quiet_NaN();  // Cutoff of the latest decision that had one.
  std::vector<DecisionRecord> members;  // Last decision for each trial at this rung, with the last value compared; by
                                        // arrival.
};

// By bracket, then milestone. Empty if the run's scheduler has no rungs.
std::vector<JournalRung> journal_rungs(const JournalContents& journal);

// Converts to the form that the scheduler reports: best first. `ended`: no more trials arrive.
RungState state_of(const JournalRung& rung, Mode mode, bool ended);

}  // namespace volador::tune
