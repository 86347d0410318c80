#include "experiments/search/searcher_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace volador::experiments {
namespace {

using ::testing::ElementsAre;
using tune::determined::AdaptiveMode;

TEST(SearcherSettingsOf, EverySearcher) {
  const auto asha = searcher_settings({.name = "adaptive_asha",
                                       .metric = "loss",
                                       .smaller_is_better = false,
                                       .max_length = Length{LengthUnit::kEpochs, 64},
                                       .method = AdaptiveAshaSearch{.max_trials = 128,
                                                                    .mode = SearchMode::kConservative,
                                                                    .divisor = 3,
                                                                    .max_rungs = 4,
                                                                    .bracket_rungs = {3, 1},
                                                                    .max_concurrent_trials = 0,
                                                                    .stop_once = true}});
  EXPECT_EQ(asha.options.name, "adaptive_asha");
  EXPECT_EQ(asha.metric, "loss");
  EXPECT_EQ(asha.unit, "epochs");
  EXPECT_EQ(asha.options.max_length, 64);
  EXPECT_EQ(asha.options.max_trials, 128);
  EXPECT_EQ(asha.options.max_concurrent_trials, 0);
  EXPECT_EQ(asha.options.divisor, 3);
  EXPECT_EQ(asha.options.max_rungs, 4);
  EXPECT_EQ(asha.options.mode, AdaptiveMode::kConservative);
  EXPECT_THAT(asha.options.bracket_rungs, ElementsAre(3, 1));
  EXPECT_TRUE(asha.options.stop_once);
  EXPECT_FALSE(asha.options.smaller_is_better);
  EXPECT_FALSE(asha.options.timed);

  const auto random = searcher_settings({.name = "random",
                                         .metric = "loss",
                                         .max_length = Length{LengthUnit::kUnitless, 100},
                                         .method = RandomSearch{.max_trials = 3, .max_concurrent_trials = 5}});
  EXPECT_EQ(random.unit, "");
  EXPECT_EQ(random.options.max_trials, 3);
  EXPECT_EQ(random.options.max_concurrent_trials, 5);
  const auto grid = searcher_settings({.name = "grid",
                                       .metric = "loss",
                                       .max_length = Length{LengthUnit::kBatches, 5},
                                       .method = GridSearch{.max_concurrent_trials = 7}});
  EXPECT_EQ(grid.options.max_length, 5);
  EXPECT_EQ(grid.options.max_concurrent_trials, 7);
  const auto halving = searcher_settings(
      {.name = "async_halving",
       .metric = "loss",
       .max_length = Length{LengthUnit::kRecords, 9},
       .method = AsyncHalvingSearch{.num_rungs = 2, .max_trials = 5, .divisor = 2, .stop_once = true}});
  EXPECT_EQ(halving.unit, "records");
  EXPECT_EQ(halving.options.num_rungs, 2);
  EXPECT_EQ(halving.options.max_trials, 5);
  EXPECT_EQ(halving.options.divisor, 2);
  EXPECT_TRUE(halving.options.stop_once);
  EXPECT_EQ(searcher_settings({.name = "custom", .metric = "loss", .method = CustomSearch{}}).options.name, "custom");
}

TEST(SearcherSettingsOf, TimesOfTheProgram) {
  const auto timed = searcher_settings({.name = "adaptive_asha",
                                        .metric = "loss",
                                        .time_metric = "epochs",
                                        .max_time = 90,
                                        .method = AdaptiveAshaSearch{.max_trials = 9}});
  EXPECT_TRUE(timed.options.timed);
  EXPECT_EQ(timed.time_metric, "epochs");
  EXPECT_EQ(timed.unit, "");
  EXPECT_EQ(timed.options.max_length, 90);
  const auto single = searcher_settings({.name = "single", .metric = "x", .method = SingleSearch{}});
  EXPECT_TRUE(single.options.timed);
  EXPECT_EQ(single.options.max_length, 1);
}

}  // namespace
}  // namespace volador::experiments
