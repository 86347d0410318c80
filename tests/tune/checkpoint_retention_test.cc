#include "tune/loop/checkpoint_retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace volador::tune {
namespace {

using ::testing::ElementsAre;

// Returns the steps kept after checkpoints with these scores were saved in order.
std::vector<int64_t> kept(const std::vector<double>& scores, const CheckpointOptions& options) {
  std::vector<Checkpoint> checkpoints;
  size_t retired = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    checkpoints.push_back({.step = static_cast<int64_t>(i) + 1, .score = scores[i]});
    retired += retire_checkpoints(checkpoints, options).size();
  }
  EXPECT_EQ(retired + checkpoints.size(), scores.size());
  std::vector<int64_t> steps;
  for (const Checkpoint& checkpoint : checkpoints) steps.push_back(checkpoint.step);
  return steps;
}

TEST(CheckpointRetention, KeepsAllByDefault) { EXPECT_THAT(kept({1, 2, 3}, {}), ElementsAre(1, 2, 3)); }

TEST(CheckpointRetention, KeepsTheLatestWithoutAScore) {
  EXPECT_THAT(kept({5, 4, 3, 2}, {.num_to_keep = 2}), ElementsAre(3, 4));
}

TEST(CheckpointRetention, KeepsTheBestAndTheLast) {
  const CheckpointOptions one{.num_to_keep = 1, .score_attribute = "m"};
  EXPECT_THAT(kept({3, 5, 4, 1}, one), ElementsAre(2, 4));
  EXPECT_THAT(kept({1, 2, 3}, one), ElementsAre(3));
  EXPECT_THAT(kept({3, 5, 4, 1}, {.num_to_keep = 2, .score_attribute = "m"}), ElementsAre(2, 3, 4));
  EXPECT_THAT(kept({3, 5, 4, 1}, {.num_to_keep = 1, .score_attribute = "m", .score_order = Mode::kMin}),
              ElementsAre(4));
  EXPECT_THAT(kept({5, 5, 1}, one), ElementsAre(2, 3));
}

TEST(CheckpointRetention, RanksNanLast) {
  EXPECT_THAT(kept({NAN, -1, NAN, -1e300, NAN}, {.num_to_keep = 2, .score_attribute = "m"}), ElementsAre(2, 4, 5));
}

TEST(Trial, BestCheckpointIsTheBestScoredElseTheLast) {
  Trial trial;
  EXPECT_EQ(trial.best_checkpoint(Mode::kMax), nullptr);
  trial.checkpoints = {{.step = 1}, {.step = 2}};
  EXPECT_EQ(trial.best_checkpoint(Mode::kMax)->step, 2);
  trial.checkpoints = {{.step = 1, .score = 5}, {.step = 2, .score = 7}, {.step = 3, .score = 5}, {.step = 4}};
  EXPECT_EQ(trial.best_checkpoint(Mode::kMax)->step, 2);
  EXPECT_EQ(trial.best_checkpoint(Mode::kMin)->step, 3);
}

}  // namespace
}  // namespace volador::tune
