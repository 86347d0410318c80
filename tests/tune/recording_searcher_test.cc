#include "tune/searchers/recording_searcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tune/simulated_journal.h"
#include "tune/results/experiment_resume.h"
#include "tune/results/replay_audit.h"
#include "tune/searchers/search_wrappers.h"

namespace volador::tune {
namespace {

struct Parts {
  RecordingSearcher* recording = nullptr;
  std::unique_ptr<TrialLoop> loop;
};

// A searcher that answers kWait while two of its trials run.
Parts parts_of(std::vector<RecordedSuggestion> recorded) {
  Parts parts;
  auto recording =
      std::make_unique<RecordingSearcher>(concurrency_limiter({.max_concurrent = 2}, random_search())(
                                              {.space = testing::kJournalSpace, .num_samples = 12, .seed = 5})
                                              .value(),
                                          std::move(recorded), 12);
  parts.recording = recording.get();
  parts.loop =
      TrialLoop::create({.metric = "accuracy", .trial_key = 5, .max_failures = -1, .checkpoint = {.frequency = 1}},
                        std::move(recording),
                        asha({.max_t = 9, .reduction_factor = 3})({.metric = "accuracy", .seed = 5}).value())
          .value();
  return parts;
}

TEST(RecordingSearcher, SuggestsInAReplayAfterTheSameEventsAsInTheRun) {
  Parts parts = parts_of({});
  JournalContents journal;
  journal.header = {.name = "digits", .metric = "accuracy", .mode = "max", .seed = 5};
  int64_t event = -1;
  parts.recording->on_suggestion = [&](int64_t index, const Config& config) {
    journal.records.push_back(JournalSuggestion{index, config, event});
  };
  testing::TrialSimulator simulator({.seed = 5, .faults = {.crash = 0.05}}, *parts.loop);
  simulator.on_event = [&](BootTime now, const Event& told) {
    journal.records.push_back(JournalEvent{now - BootTime{}, {}, told});
    ++event;
  };
  ASSERT_EQ(simulator.run(), "");
  const auto suggestions = recorded_suggestions(journal.records);
  ASSERT_EQ(suggestions.size(), 12U);
  EXPECT_LT(suggestions.front().event, suggestions.back().event);

  Parts again = parts_of(suggestions);
  const ReplayReport report = audit_replay(journal, *again.loop, *again.recording);
  EXPECT_EQ(report.differences, 0) << (report.shown.empty() ? "" : report.shown.front());
  EXPECT_EQ(again.loop->trials().size(), 12U);
}

// Its state includes the first suggestions.
class Restored final : public Searcher {
 public:
  Result<Suggestion> suggest(int64_t index) override {
    if (index < 2) return Suggestion{Suggestion::Kind::kKnown, {}};
    return Suggestion{Suggestion::Kind::kConfig, {{"lr", static_cast<double>(index)}}};
  }
  void on_start(int64_t index, const Config&) override { started.push_back(index); }
  void on_result(const Observation&) override {}
  void on_complete(int64_t, const std::optional<Observation>&) override {}
  std::optional<int64_t> total() const override { return 4; }
  bool learns() const override { return true; }
  bool needs_metric() const override { return false; }
  std::string describe() const override { return "restored"; }
  std::string snapshot() const override { return "{}"; }
  Result<void> restore(std::string_view) override { return {}; }

  std::vector<int64_t> started;
};

TEST(RecordingSearcher, TakesTheRecordForWhatARestoredSearcherKnows) {
  auto restored = std::make_unique<Restored>();
  Restored& inner = *restored;
  std::vector<RecordedSuggestion> recorded;
  for (int i = 0; i < 3; ++i) recorded.push_back({{{"lr", 0.1 * i}}, i == 2 ? int64_t{7} : int64_t{-1}});
  RecordingSearcher searcher(std::move(restored), std::move(recorded), 4);
  EXPECT_EQ(searcher.suggest(1).value().config.real("lr"), 0.1);
  EXPECT_EQ(searcher.differences(), 0);
  searcher.at(6);
  EXPECT_EQ(searcher.suggest(2).value().kind, Suggestion::Kind::kWait);
  searcher.at(7);
  EXPECT_EQ(searcher.suggest(2).value().config.real("lr"), 0.2);
  EXPECT_EQ(searcher.differences(), 1);
  EXPECT_THAT(inner.started, ::testing::ElementsAre(2));
  EXPECT_EQ(searcher.suggest(3).value().config.real("lr"), 3);
}

}  // namespace
}  // namespace volador::tune
