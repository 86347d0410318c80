#include "tune/results/journal_rungs.h"

#include <gtest/gtest.h>

#include <cmath>

namespace volador::tune {
namespace {

JournalRecord decided(uint32_t trial, double milestone, double value, Act act, double cutoff = NAN) {
  JournalDecision decision;
  decision.record = {
      .trial = TrialId(trial), .act = act, .bracket = 0, .milestone = milestone, .value = value, .cutoff = cutoff};
  return decision;
}

TEST(JournalRungs, HoldTheLastDecisionAboutEachTrialWithItsLastNumber) {
  JournalContents journal;
  journal.records = {decided(1, 3, 0.5, Act::kPassed, 0.4), decided(1, 1, 0.2, Act::kPassed),
                     decided(2, 1, 0.1, Act::kPaused), decided(3, 0, 0.9, Act::kStopped),
                     decided(2, 1, NAN, Act::kResumed, 0.1)};
  const auto rungs = journal_rungs(journal);
  ASSERT_EQ(rungs.size(), 2U);
  EXPECT_EQ(rungs[0].milestone, 1);
  EXPECT_EQ(rungs[0].cutoff, 0.1);
  ASSERT_EQ(rungs[0].members.size(), 2U);
  EXPECT_EQ(rungs[0].members[1].act, Act::kResumed);
  EXPECT_EQ(rungs[0].members[1].value, 0.1);
}

TEST(JournalRungs, AreToldAsTheSchedulerWouldBestFirst) {
  JournalContents journal;
  journal.records = {decided(1, 1, 0.5, Act::kStopped), decided(2, 1, NAN, Act::kStopped),
                     decided(3, 1, 0.1, Act::kPassed, 0.3)};
  const auto rungs = journal_rungs(journal);
  const RungState state = state_of(rungs[0], Mode::kMin, true);
  EXPECT_EQ(state.trials, 3);
  EXPECT_EQ(state.passed, 1);
  EXPECT_EQ(state.state, "decided");
  EXPECT_EQ(state.members[0].trial, TrialId(3));
  EXPECT_EQ(state.members[2].trial, TrialId(2));
  EXPECT_EQ(state_of(rungs[0], Mode::kMax, false).members[0].trial, TrialId(1));
  EXPECT_EQ(state_of(rungs[0], Mode::kMax, false).state, "open");
}

}  // namespace
}  // namespace volador::tune
