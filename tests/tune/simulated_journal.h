// Journals of experiments on simulated actors.
#pragma once

#include <gtest/gtest.h>

#include "tests/tune/trial_simulator.h"
#include "tune/results/experiment_journal.h"
#include "tune/schedulers/asha_scheduler.h"
#include "tune/searchers/recording_searcher.h"
#include "tune/searchers/variant_searcher.h"

namespace volador::tune::testing {

inline const Space kJournalSpace = {{"lr", uniform(0.0, 1.0)}};

// Returns the journal of a simulated experiment.
inline JournalContents simulated_journal(const Faults& faults) {
  JournalContents journal;
  journal.header = {.name = "digits",
                    .metric = "accuracy",
                    .mode = "max",
                    .seed = 5,
                    .searcher = "random search",
                    .scheduler = "ASHA"};
  auto recording = std::make_unique<RecordingSearcher>(
      random_search()({.space = kJournalSpace, .num_samples = 12, .seed = 5}).value(),
      std::vector<RecordedSuggestion>(), 12);
  recording->on_suggestion = [&](int64_t index, const Config& config) {
    journal.records.push_back(JournalSuggestion{index, config});
  };
  auto loop =
      TrialLoop::create({.metric = "accuracy", .trial_key = 5, .max_failures = -1, .checkpoint = {.frequency = 1}},
                        std::move(recording),
                        asha({.max_t = 9, .reduction_factor = 3})({.metric = "accuracy", .seed = 5}).value())
          .value();
  TrialSimulator simulator({.seed = 5, .faults = faults}, *loop);
  int64_t events = 0;
  simulator.on_event = [&](BootTime now, const Event& event) {
    journal.records.push_back(JournalEvent{now - BootTime{}, {}, event});
    ++events;
  };
  simulator.on_decision = [&](const DecisionRecord& record) {
    journal.records.push_back(JournalDecision{events - 1, record});
  };
  EXPECT_EQ(simulator.run(), "");
  return journal;
}

}  // namespace volador::tune::testing
