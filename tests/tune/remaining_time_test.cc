#include "tune/remaining_time.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace volador::tune {
namespace {

double seconds(const RunSoFar& run) {
  const auto left = remaining_time(run);
  return left ? std::chrono::duration<double>(*left).count() : -1;
}

TEST(RemainingTime, TrialsOfEqualLengthAreSharedByTheSlots) {
  // 4 slots, 10 s each; 4 have ended, 4 are half done, 8 are to come.
  const RunSoFar run{.ended_s = {10, 10, 10, 10}, .going_s = {5, 5, 5, 5}, .to_start = 8, .slots = 4};
  EXPECT_NEAR(seconds(run), 25, 1e-6);
}

TEST(RemainingTime, NothingIsSaidWithoutGround) {
  EXPECT_EQ(seconds({.ended_s = {10, 10}, .going_s = {5}, .to_start = 8, .slots = 4}), -1) << "two trials";
  EXPECT_EQ(seconds({.ended_s = {10, 10, 10}, .going_s = {5}, .to_start = 8, .slots = 0}), -1) << "no slot is known";
  EXPECT_EQ(seconds({.ended_s = {10, 10, 10}, .going_s = {5}, .slots = 4}), -1) << "no end";
  EXPECT_EQ(seconds({}), -1);
}

TEST(RemainingTime, TheBudgetIsTheMost) {
  const RunSoFar run{
      .ended_s = {10, 10, 10}, .going_s = {}, .to_start = 300, .slots = 1, .budget_left = std::chrono::seconds(60)};
  EXPECT_NEAR(seconds(run), 60, 1e-6);
  EXPECT_NEAR(seconds({.slots = 4, .budget_left = std::chrono::seconds(60)}), 60, 1e-6)
      << "trials without an end run until it is used up";
  EXPECT_NEAR(seconds({.slots = 4, .budget_left = std::chrono::seconds(-1)}), 0, 1e-6);
}

TEST(RemainingTime, TrialsThatGoOnSayThatOthersAreLonger) {
  // Early stopping: six ended after 1 s, two go on at 9 s. Those that ended alone would say 1 s a trial.
  const RunSoFar run{.ended_s = {1, 1, 1, 1, 1, 1}, .going_s = {9, 9}, .to_start = 8, .slots = 1};
  EXPECT_NEAR(seconds(run), 8 * (0.75 * 1 + 0.25 * 9), 1e-6);
}

TEST(RemainingTime, TheLongestThatGoesOnIsTheLeast) {
  // Lengths of 1 and 100 s; one has gone on for 2 s, so it is of the long ones.
  const RunSoFar run{.ended_s = {1, 1, 1, 100}, .going_s = {2}, .to_start = 0, .slots = 64};
  EXPECT_NEAR(seconds(run), 98, 1e-6);
  EXPECT_NEAR(seconds({.ended_s = {1, 1, 1, 100}, .to_start = 0, .slots = 64}), 0, 1e-6);
}

TEST(RemainingTime, MoreSlotsThanTrialsDoNotHelp) {
  EXPECT_NEAR(seconds({.ended_s = {10, 10, 10}, .to_start = 2, .slots = 1000}), 10, 1e-6);
}

TEST(RemainingTime, CountsTrialsByTheirStatus) {
  std::vector<Trial> trials(kTrialStatuses);
  std::vector<const Trial*> all;
  for (size_t i = 0; i < trials.size(); ++i) {
    trials[i].status = static_cast<TrialStatus>(i);
    trials[i].time_total_s = 1;
    all.push_back(&trials[i]);
  }
  const RunSoFar run = run_so_far(all, 5);
  EXPECT_EQ(run.ended_s.size(), 2U);
  EXPECT_EQ(run.going_s.size(), 2U);
  EXPECT_EQ(run.to_start, 6);
  EXPECT_EQ(run_so_far(all, std::nullopt).to_start, std::nullopt);
}

}  // namespace
}  // namespace volador::tune
