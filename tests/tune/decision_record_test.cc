#include "tune/loop/decision_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tune/schedulers/asha_scheduler.h"
#include "tune/schedulers/hyperband_scheduler.h"
#include "tune/schedulers/median_stopping_scheduler.h"
#include "tune/schedulers/pbt_scheduler.h"
#include "tune/space/space.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

const SchedulerContext kContext{.metric = "accuracy", .mode = Mode::kMax, .seed = 0};

std::unique_ptr<Scheduler> made(const SchedulerFactory& factory, int trials) {
  auto scheduler = factory(SchedulerContext(kContext)).value();
  for (int i = 1; i <= trials; ++i) scheduler->on_trial_add(TrialId(static_cast<uint32_t>(i)));
  return scheduler;
}

// Returns the decisions that result from one report.
std::vector<DecisionRecord> report_to(Scheduler& scheduler, uint32_t trial, int64_t step, double value) {
  EXPECT_TRUE(scheduler.on_report({.trial = TrialId(trial), .step = step, .value = value}).has_value());
  (void)scheduler.take_orders();
  return scheduler.take_decisions();
}

TEST(DecisionRecords, OfAshaHaveRungRankAndCutOff) {
  const auto scheduler = made(asha({.max_t = 9, .reduction_factor = 2}), 4);
  EXPECT_EQ(report_to(*scheduler, 1, 1, 0.5).at(0), (DecisionRecord{.trial = TrialId(1),
                                                                    .step = 1,
                                                                    .act = Act::kPassed,
                                                                    .rule = "ASHA",
                                                                    .bracket = 0,
                                                                    .milestone = 1,
                                                                    .value = 0.5,
                                                                    .rank = 1,
                                                                    .of = 1,
                                                                    .pass = 1,
                                                                    .cutoff = 0.5}));
  const auto stopped = report_to(*scheduler, 2, 1, 0.25);
  EXPECT_EQ(stopped.at(0), (DecisionRecord{.trial = TrialId(2),
                                           .step = 1,
                                           .act = Act::kStopped,
                                           .rule = "ASHA",
                                           .bracket = 0,
                                           .milestone = 1,
                                           .value = 0.25,
                                           .rank = 2,
                                           .of = 2,
                                           .pass = 1,
                                           .cutoff = 0.5}));
  EXPECT_EQ(to_text(stopped.at(0)), "rank 2 of 2 at step 1 with 0.25; the best goes on, with 0.5 (ASHA)");
  EXPECT_EQ(reason_of(stopped.at(0)).text(Language::kChinese), "第 1 步 0.25，排名 2/2；仅第 1 名（0.5）晋级（ASHA）");
  EXPECT_EQ(report_to(*scheduler, 3, 1, std::nan("")).at(0).act, Act::kStopped);
  EXPECT_TRUE(report_to(*scheduler, 2, 2, 1).empty()) << "a late report decides nothing";
  EXPECT_EQ(report_to(*scheduler, 1, 9, 0.5).at(0).act, Act::kFinished);
}

TEST(DecisionRecords, OfAUsersSchedulerMayBeATextAlone) {
  const DecisionRecord record{.step = 3, .act = Act::kStopped, .rule = "mine", .detail = "the moon is full"};
  EXPECT_EQ(to_text(record), "the moon is full (mine)");
  EXPECT_EQ(reason_of(record).text(Language::kChinese), "the moon is full（mine）");
  EXPECT_EQ(to_text({.step = 1, .act = Act::kFinished}), "1 step done");
}

TEST(DecisionRecords, OfRaysRuleHaveThePercentile) {
  const auto scheduler = made(asha({.max_t = 9, .reduction_factor = 2, .rule = AshaRule::kRay}), 2);
  (void)report_to(*scheduler, 1, 1, 0.5);
  const auto stopped = report_to(*scheduler, 2, 1, 0.25);
  EXPECT_EQ(stopped.at(0).cutoff, 0.5);
  EXPECT_EQ(to_text(stopped.at(0)), "rank 2 of 2 at step 1 with 0.25; the cut-off is 0.5 (ASHA)");
}

TEST(DecisionRecords, OfHyperBandTellWhoWaitsAndWhoGoesOn) {
  const auto scheduler = made(hyperband({.max_t = 3, .eta = 3}), 5);  // A bracket of two full runs, then one of three.
  const auto waits = report_to(*scheduler, 3, 1, 0.1);
  EXPECT_EQ(waits.at(0).act, Act::kPaused);
  EXPECT_EQ(to_text(waits.at(0)), "it waits at step 1 with 0.1 for 2 others of bracket 1 (HyperBand)");
  (void)report_to(*scheduler, 4, 1, 0.3);
  const auto halved = report_to(*scheduler, 5, 1, 0.2);
  ASSERT_EQ(halved.size(), 3U);
  EXPECT_EQ(halved[0].trial, TrialId(4));
  EXPECT_EQ(halved[0].act, Act::kPassed);
  EXPECT_EQ(to_text(halved[1]), "rank 2 of 3 at step 1 of bracket 1 with 0.2; the best goes on, with 0.3 (HyperBand)");
  EXPECT_EQ(halved[2].act, Act::kStopped);
}

TEST(DecisionRecords, OfMedianStoppingHaveTheMedian) {
  const auto scheduler = made(median_stopping({.grace_period = 1, .min_samples_required = 2}), 3);
  EXPECT_TRUE(report_to(*scheduler, 1, 1, 0.5).empty());
  EXPECT_TRUE(report_to(*scheduler, 2, 1, 0.75).empty());
  const auto stopped = report_to(*scheduler, 3, 1, 0.25);
  EXPECT_EQ(stopped.at(0).cutoff, 0.625);
  EXPECT_EQ(
      to_text(stopped.at(0)),
      "its best value up to step 1 is 0.25, worse than 0.625, the median of the 2 others' averages (median stopping)");
}

TEST(DecisionRecords, OfPbtNameTheTrialThatIsCopied) {
  const auto scheduler = made(
      pbt({.perturbation_interval = 1, .hyperparam_mutations = {{"lr", uniform(0.0, 1.0)}}, .quantile_fraction = 0.5}),
      2);
  EXPECT_EQ(report_to(*scheduler, 1, 1, 0.75).at(0).act, Act::kPassed);
  scheduler->on_checkpoint(TrialId(1), 1);
  const auto cloned = report_to(*scheduler, 2, 1, 0.5);
  EXPECT_EQ(cloned.at(0).act, Act::kCloned);
  EXPECT_EQ(to_text(cloned.at(0)), "rank 2 of 2 at step 1 with 0.5; it goes on as a copy of trial 00000001 (PBT)");
}

TEST(SchedulerRungs, OfAshaHoldTheirMembersBestFirst) {
  const auto scheduler = made(asha({.max_t = 4, .reduction_factor = 2}), 3);
  for (uint32_t i = 1; i <= 3; ++i) (void)report_to(*scheduler, i, 1, 0.25 * i);
  const auto rungs = scheduler->rungs(2);
  ASSERT_EQ(rungs.size(), 3U);
  EXPECT_EQ(rungs[0].milestone, 1);
  EXPECT_EQ(rungs[0].trials, 3);
  EXPECT_EQ(rungs[0].passed, 3);
  EXPECT_EQ(rungs[0].cutoff, 0.75);
  ASSERT_EQ(rungs[0].members.size(), 2U) << "cut";
  EXPECT_EQ(rungs[0].members[0].trial, TrialId(3));
  EXPECT_EQ(rungs[2].trials, 0);
  EXPECT_TRUE(std::isnan(rungs[2].cutoff));
}

TEST(SchedulerRungs, OfHyperBandSayWhomTheyWaitFor) {
  const auto scheduler = made(hyperband({.max_t = 3, .eta = 3}), 5);
  (void)report_to(*scheduler, 3, 1, 0.1);
  auto rungs = scheduler->rungs(10);
  ASSERT_EQ(rungs.size(), 3U) << "one of the first bracket, two of the second";
  EXPECT_EQ(rungs[1].state, "waiting");
  EXPECT_EQ(rungs[1].awaited, 2);
  ASSERT_EQ(rungs[1].members.size(), 1U);
  (void)report_to(*scheduler, 4, 1, 0.3);
  (void)report_to(*scheduler, 5, 1, 0.2);
  rungs = scheduler->rungs(10);
  EXPECT_EQ(rungs[1].state, "decided");
  EXPECT_EQ(rungs[1].passed, 1);
  EXPECT_EQ(rungs[1].cutoff, 0.3);
  EXPECT_EQ(rungs[1].members[2].act, Act::kStopped);
  EXPECT_EQ(rungs[2].awaited, 1);
}

}  // namespace
}  // namespace volador::tune
