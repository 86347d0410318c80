// The run that is resumed, as its searcher and its scheduler see it. For those whose code may decide otherwise when it
// is asked again: programs in other languages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

#include "tune/loop/decision_record.h"

namespace volador::tune {

// A decision and the number of the event that led to it; the first event is 0, and -1 is the start of the run.
struct EarlierDecision {
  int64_t event = -1;
  DecisionRecord record;
};

struct EarlierRun {
  std::filesystem::path directory;
  std::vector<EarlierDecision> decisions;  // Oldest first; those of stop conditions too.
  std::map<TrialId, int64_t> last_steps;   // The last step that each trial reported.
  int64_t event = -1;                      // The event that is being replayed.
  bool replaying = true;                   // false: the journal has been replayed, and the run goes on.
};

}  // namespace volador::tune
