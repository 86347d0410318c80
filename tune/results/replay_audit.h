// Asks searcher and scheduler of a run again, and says where one of them decides otherwise than the journal has it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/result.h"
#include "tune/loop/trial_loop.h"
#include "tune/results/experiment_journal.h"
#include "tune/searchers/recording_searcher.h"

namespace volador::tune {

struct ReplayReport {
  static constexpr size_t kShownMax = 100;

  int64_t events = 0;
  int64_t suggestions = 0;  // Compared.
  int64_t decisions = 0;    // Compared; 0 also where the journal of an earlier Volador has none.
  int64_t differences = 0;
  std::vector<std::string> shown;  // The first of them, in words.

  std::string to_json() const;
  static Result<ReplayReport> from_json(std::string_view json);
};

// `loop` is fresh and has `searcher`, which was given the recorded suggestions.
ReplayReport audit_replay(const JournalContents& journal, TrialLoop& loop, RecordingSearcher& searcher);

}  // namespace volador::tune
