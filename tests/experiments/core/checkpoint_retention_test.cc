#include "experiments/core/checkpoint_retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>

namespace volador::experiments {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> kept(const std::vector<CheckpointEntry>& checkpoints, int64_t experiment, int64_t best,
                              int64_t latest, bool smaller = true) {
  const auto verdicts = judge_checkpoints(checkpoints, {experiment, best, latest, smaller});
  std::vector<std::string> out;
  for (size_t i = checkpoints.size(); i-- > 0;) {
    if (verdicts[i].stays()) out.push_back(checkpoints[i].id);
  }
  return out;
}

std::vector<CheckpointEntry> documented() {
  return {{"1", 1}, {"2", 1},         {"3", 1, 0.6, 1}, {"4", 1, 0.5, 2}, {"5", 1, 0.4, 3},
          {"6", 2}, {"7", 2, 0.2, 4}, {"8", 2, 0.3, 5}, {"9", 2},         {"10", 2}};
}

TEST(CheckpointRetentions, KeepWhatTheirDocumentationSays) {
  const auto all = documented();
  EXPECT_THAT(kept(all, 0, 0, 0), IsEmpty());
  EXPECT_THAT(kept(all, 2, 0, 0), ElementsAre("8", "7"));
  EXPECT_THAT(kept(all, 5, 0, 0), ElementsAre("8", "7", "5", "4", "3"));
  EXPECT_THAT(kept(all, 99, 0, 0), ElementsAre("8", "7", "5", "4", "3"));
  EXPECT_THAT(kept(all, 0, 1, 0), ElementsAre("7", "5"));
  EXPECT_THAT(kept(all, 0, 3, 0), ElementsAre("8", "7", "5", "4", "3"));
  EXPECT_THAT(kept(all, 0, 0, 1), ElementsAre("10", "5"));
  EXPECT_THAT(kept(all, 0, 0, 3), ElementsAre("10", "9", "8", "5", "4", "3"));
  EXPECT_THAT(kept(all, 2, 1, 0), ElementsAre("8", "7", "5"));
  EXPECT_THAT(kept(all, 2, 0, 1), ElementsAre("10", "8", "7", "5"));
  EXPECT_THAT(kept(all, 0, 1, 1), ElementsAre("10", "7", "5"));
  EXPECT_THAT(kept(all, 2, 1, 1), ElementsAre("10", "8", "7", "5"));
}

TEST(CheckpointRetentions, FourCheckpointsThatGetWorse) {
  std::vector<CheckpointEntry> all;
  for (int64_t i = 1; i <= 4; ++i) all.push_back({std::to_string(i), 1, static_cast<double>(i), i});
  EXPECT_THAT(kept(all, 0, 0, 0), IsEmpty());
  EXPECT_THAT(kept(all, 0, 0, 1), ElementsAre("4"));
  EXPECT_THAT(kept(all, 0, 1, 0), ElementsAre("1"));
  EXPECT_THAT(kept(all, 1, 0, 0), ElementsAre("1"));
  EXPECT_THAT(kept(all, 1, 1, 0), ElementsAre("1"));
  EXPECT_THAT(kept(all, 0, 1, 1), ElementsAre("4", "1"));
  EXPECT_THAT(kept(all, 1, 0, 1), ElementsAre("4", "1"));
  EXPECT_THAT(kept(all, 1, 1, 1), ElementsAre("4", "1"));
  EXPECT_THAT(kept(all, 1, 0, 0, false), ElementsAre("4"));
}

TEST(CheckpointRetentions, TiesGoToTheFirstValidationAndNanIsNone) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(kept({{"a", 1, 0.5, 9}, {"b", 1, 0.5, 3}, {"c", 1, nan, 1}}, 1, 0, 0), ElementsAre("b"));
  EXPECT_THAT(kept({{"a", 1, 0.5, 9}, {"b", 1, 0.5, 3}, {"c", 1, nan, 1}}, 0, 0, 1), ElementsAre("c"));
  EXPECT_THAT(kept({{"a", 1, nan, 1}}, 1, 1, 0), IsEmpty());
}

TEST(CheckpointRetentions, NeverTouchWhatOthersUse) {
  auto all = documented();
  all[0].registered = true;
  all[5].warm_start = true;
  EXPECT_THAT(kept(all, 0, 0, 0), ElementsAre("6", "1"));
  const auto verdicts = judge_checkpoints(all, {0, 1, 0});
  EXPECT_EQ(verdicts[0], (CheckpointVerdict{.registered = true}));
  EXPECT_EQ(verdicts[6], (CheckpointVerdict{.trial_best = true}));
  // They take part in the ranking.
  all[6].registered = true;
  EXPECT_THAT(kept(all, 1, 0, 0), ElementsAre("7", "6", "1"));
}

// For each checkpoint, counts those that are better or later.
TEST(CheckpointRetentions, AgreeWithCounting) {
  std::mt19937 dice(7);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(dice() % static_cast<uint64_t>(n)); };
  for (int round = 0; round < 1000; ++round) {
    std::vector<CheckpointEntry> all;
    const int64_t count = below(25);
    for (int64_t i = 0; i < count; ++i) {
      CheckpointEntry one{std::to_string(i), below(4)};
      if (below(3) > 0) one.metric = static_cast<double>(below(6));
      one.validation = below(2) == 0 ? i : 1000 - i;
      one.registered = below(10) == 0;
      one.warm_start = below(10) == 0;
      all.push_back(one);
    }
    const CheckpointRetention policy{below(4), below(4), below(4), below(2) == 0};
    const auto verdicts = judge_checkpoints(all, policy);
    for (size_t i = 0; i < all.size(); ++i) {
      int64_t better = 0, better_of_trial = 0, later = 0;
      for (size_t j = 0; j < all.size(); ++j) {
        const bool same = all[i].trial == all[j].trial;
        later += same && j > i;
        if (!all[i].metric || !all[j].metric || i == j) continue;
        const double a = policy.smaller_is_better ? *all[j].metric : *all[i].metric;
        const double b = policy.smaller_is_better ? *all[i].metric : *all[j].metric;
        const bool wins = a < b || (a == b && all[j].validation < all[i].validation);
        better += wins;
        better_of_trial += wins && same;
      }
      const bool validated = all[i].metric.has_value();
      EXPECT_EQ(verdicts[i],
                (CheckpointVerdict{validated && better < policy.save_experiment_best,
                                   validated && better_of_trial < policy.save_trial_best,
                                   later < policy.save_trial_latest, all[i].registered, all[i].warm_start}));
    }
  }
}

}  // namespace
}  // namespace volador::experiments
