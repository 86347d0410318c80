// What a run's journal tells of one trial: why it started with its values, how its attempts went, and why it was let go
// on, paused, stopped or made a copy, with those it was compared with. Pure.
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
    std::chrono::nanoseconds at{0};  // Of the experiment's time.
    Reason text;                     // In words.
    std::optional<DecisionRecord> decision = std::nullopt;
    std::vector<DecisionRecord> others =
        {};  // Those it was compared with, best first, each by its latest decision up to then.
    size_t others_left_out = 0;
  };
  TrialId trial;
  int64_t index = 0;
  Config config;              // As suggested.
  int64_t reports_known = 0;  // Results of all trials that had come when it was suggested, at most.
  std::string searcher, scheduler, metric, mode;
  int64_t step = 0;  // Its last report.
  Metrics last_result;
  std::vector<Moment> moments;  // In order.
  Reason notice;                // What cannot be told; may be empty.
};

// `id`: of the trial, or its start. kNotFound: as of find_trial().
[[nodiscard]] Result<TrialStory> tell_story(const JournalContents& journal, std::string_view id, size_t others_max);

}  // namespace volador::tune
