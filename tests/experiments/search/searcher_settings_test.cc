#include "experiments/search/searcher_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace volador::experiments {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using tune::Config;
using tune::determined::AdaptiveMode;

Result<SearcherSettings> settings_of(const std::string& json) {
  return searcher_settings(Config::from_json(json).value());
}
std::string refusal(const std::string& json) { return settings_of(json).error().message; }

TEST(SearcherSettingsOf, EverySearcher) {
  const auto asha = settings_of(R"({"name": "adaptive_asha", "metric": "loss", "smaller_is_better": false,
      "max_length": {"epochs": 64}, "max_trials": 128, "mode": "conservative", "divisor": 3, "max_rungs": 4,
      "bracket_rungs": [3, 1], "max_concurrent_trials": 0, "stop_once": true, "source_trial_id": null})");
  ASSERT_TRUE(asha.has_value());
  EXPECT_EQ(asha->metric, "loss");
  EXPECT_EQ(asha->unit, "epochs");
  EXPECT_EQ(asha->options.max_length, 64);
  EXPECT_EQ(asha->options.max_trials, 128);
  EXPECT_EQ(asha->options.max_concurrent_trials, 0);
  EXPECT_EQ(asha->options.divisor, 3);
  EXPECT_EQ(asha->options.max_rungs, 4);
  EXPECT_EQ(asha->options.mode, AdaptiveMode::kConservative);
  EXPECT_THAT(asha->options.bracket_rungs, ElementsAre(3, 1));
  EXPECT_TRUE(asha->options.stop_once);
  EXPECT_FALSE(asha->options.smaller_is_better);
  EXPECT_FALSE(asha->options.timed);
  EXPECT_THAT(asha->warnings, IsEmpty());

  const auto random =
      settings_of(R"({"name": "random", "max_length": 100, "max_trials": 3, "max_concurrent_trials": null})");
  EXPECT_EQ(random->unit, "");
  EXPECT_EQ(random->options.max_concurrent_trials, 16);
  EXPECT_EQ(settings_of(R"({"name": "single", "max_length": {"records": 5}})")->unit, "records");
  EXPECT_EQ(settings_of(R"({"name": "grid", "max_length": {"batches": 5}})")->options.max_length, 5);
  EXPECT_EQ(
      settings_of(R"({"name": "async_halving", "max_length": 9, "num_rungs": 2, "max_trials": 5})")->options.num_rungs,
      2);
  EXPECT_EQ(settings_of(R"({"name": "custom"})")->options.name, "custom");
}

TEST(SearcherSettingsOf, TimesOfTheProgram) {
  const auto timed =
      settings_of(R"({"name": "adaptive_asha", "time_metric": "epochs", "max_time": 90, "max_trials": 9})");
  ASSERT_TRUE(timed.has_value());
  EXPECT_TRUE(timed->options.timed);
  EXPECT_EQ(timed->time_metric, "epochs");
  EXPECT_EQ(timed->options.max_length, 90);
  const auto single = settings_of(R"({"name": "single", "metric": "x"})");
  EXPECT_TRUE(single->options.timed);
  EXPECT_EQ(single->options.max_length, 1);
}

TEST(SearcherSettingsOf, OldNamesRunAsTheirSuccessors) {
  const auto adaptive = settings_of(R"({"name": "adaptive", "max_length": 100, "max_trials": 8, "mode": "agressive"})");
  ASSERT_TRUE(adaptive.has_value());
  EXPECT_EQ(adaptive->name, "adaptive");
  EXPECT_EQ(adaptive->options.name, "adaptive_asha");
  EXPECT_EQ(adaptive->options.mode, AdaptiveMode::kAggressive);
  EXPECT_THAT(adaptive->warnings, ElementsAre(HasSubstr("\"agressive\" was read as \"aggressive\""),
                                              HasSubstr("adaptive runs as adaptive_asha")));
  EXPECT_EQ(settings_of(R"({"name": "adaptive_simple", "max_length": 100, "max_trials": 8})")->options.name,
            "adaptive_asha");

  // 4 trials of 25, 1 of 100: 4 × 25 + 1 × 75 units.
  const auto sync = settings_of(
      R"({"name": "sync_halving", "max_length": {"batches": 100}, "num_rungs": 2, "divisor": 4, "budget": {"batches": 199}})");
  ASSERT_TRUE(sync.has_value());
  EXPECT_EQ(sync->options.name, "async_halving");
  EXPECT_EQ(sync->options.max_trials, 4);
  EXPECT_THAT(sync->warnings,
              ElementsAre(HasSubstr("sync_halving runs as async_halving"), HasSubstr("199 units pay for 4 trials")));
  const auto budget = settings_of(R"({"name": "adaptive", "max_length": 64, "budget": 2000})");
  ASSERT_TRUE(budget.has_value());
  EXPECT_LE(expected_units(budget->options), 2000);
  auto more = budget->options;
  ++more.max_trials;
  EXPECT_GT(expected_units(more), 2000);
}

TEST(SearcherSettingsOf, WrongSectionsAreRefused) {
  EXPECT_THAT(refusal(R"({"metric": "x"})"), HasSubstr("name"));
  EXPECT_THAT(refusal(R"({"name": "random", "max_length": 5})"), HasSubstr("searcher.max_trials: expected the number"));
  EXPECT_THAT(refusal(R"({"name": "adaptive_asha", "max_trials": 5})"),
              HasSubstr("searcher.max_length: adaptive_asha needs the length of a full run"));
  EXPECT_THAT(refusal(R"({"name": "adaptive_asha", "max_trials": 5, "max_time": 5})"),
              HasSubstr("searcher.time_metric"));
  EXPECT_THAT(refusal(R"({"name": "adaptive_asha", "max_trials": 5, "time_metric": "t"})"),
              HasSubstr("searcher.max_time"));
  EXPECT_THAT(refusal(R"({"name": "random", "max_length": {"hours": 5}, "max_trials": 1})"),
              HasSubstr("searcher.max_length: expected a whole number, or a map"));
  EXPECT_THAT(refusal(R"({"name": "random", "max_length": 1.5, "max_trials": 1})"), HasSubstr("got 1.5"));
  EXPECT_THAT(refusal(R"({"name": "adaptive_asha", "max_length": 5, "max_trials": 1, "mode": "fast"})"),
              HasSubstr("searcher.mode: expected aggressive, standard or conservative, got \"fast\""));
  EXPECT_THAT(refusal(R"({"name": "async_halving", "max_length": 5, "max_trials": 1})"),
              HasSubstr("searcher.num_rungs"));
  EXPECT_THAT(refusal(R"({"name": "adaptive", "max_length": 5})"), HasSubstr("searcher.max_trials"));
  EXPECT_THAT(refusal(R"({"name": "adaptive", "max_length": 5, "budget": {"epochs": 5}})"),
              HasSubstr("searcher.budget"));
  EXPECT_THAT(refusal(R"({"name": "adaptive", "max_length": 5, "budget": 10, "divisor": 1})"),
              HasSubstr("divisor above 1"));
  EXPECT_THAT(refusal(R"({"name": "random", "max_length": 5, "max_trials": "many"})"), HasSubstr("searcher."));
}

}  // namespace
}  // namespace volador::experiments
