// History of one trial from a run's journal: the origin of its values, its attempts, and the reason for each
// continuation, pause, stop or copy, with the trials that it was compared with. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"
#include "tune/results/experiment_journal.h"

namespace volador::tune {

struct TrialStory {
  struct Moment {
    std::chrono::nanoseconds at{0};  // Experiment time.
    Reason text;                     // Description.
    std::optional<DecisionRecord> decision = std::nullopt;
    std::vector<DecisionRecord> others =
        {};  // Trials that it was compared with, best first, each with its latest decision at that time.
    size_t others_left_out = 0;
  };
  TrialId trial;
  int64_t index = 0;
  Config config;              // As suggested.
  int64_t reports_known = 0;  // Upper bound of the results of all trials that were known when it was suggested.
  std::string searcher, scheduler, metric, mode;
  int64_t step = 0;  // Step of its last report.
  Metrics last_result;
  std::vector<Moment> moments;  // In order.
  Reason notice;                // Limitation of the history, if any; may be empty.
};

// `id`: that of the trial, or a prefix. kNotFound: as find_trial().
[[nodiscard]] Result<TrialStory> tell_story(const JournalContents& journal, std::string_view id, size_t others_max);

}  // namespace volador::tune
