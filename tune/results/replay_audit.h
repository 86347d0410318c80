// Replays a run with its searcher and scheduler and reports where their decisions differ from the journal.
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
  int64_t suggestions = 0;  // Number compared.
  int64_t decisions = 0;    // Number compared; also 0 if the journal of an earlier Volador contains none.
  int64_t differences = 0;
  std::vector<std::string> shown;  // Descriptions of the first differences.

  std::string to_json() const;
  static Result<ReplayReport> from_json(std::string_view json);
};

// `loop` must be new and own `searcher`, which was given the recorded suggestions.
ReplayReport audit_replay(const JournalContents& journal, TrialLoop& loop, RecordingSearcher& searcher);

}  // namespace volador::tune
