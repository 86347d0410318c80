#include "tune/results/trial_story.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tune/simulated_journal.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

TEST(TrialStories, EndWithTheDecisionThatEndedTheTrialAndNameItsRivals) {
  const JournalContents journal = testing::simulated_journal({});
  int stopped = 0;
  for (int64_t i = 0; i < 12; ++i) {
    const TrialId id = TrialId::of(5, i);
    const TrialStory story = tell_story(journal, to_string(id), 100).value();
    EXPECT_EQ(story.index, i);
    EXPECT_THAT(story.moments.front().text, HasSubstr("suggested by random search as number " + std::to_string(i + 1)));
    const TrialStory::Moment& last = story.moments.back();
    ASSERT_TRUE(last.decision.has_value());
    if (last.decision->act == Act::kFinished) continue;
    ++stopped;
    EXPECT_EQ(last.decision->act, Act::kStopped);
    EXPECT_EQ(last.decision->of, static_cast<int64_t>(last.others.size()) + 1)
        << "all that were there, itself left out";
    const auto better_ones = std::count_if(last.others.begin(), last.others.end(),
                                           [&](const auto& one) { return one.value > last.decision->value; });
    EXPECT_EQ(last.decision->rank, better_ones + 1);
  }
  EXPECT_GT(stopped, 4);
}

TEST(TrialStories, TellOfFailuresAndWhereTheTrialWentOn) {
  const JournalContents journal = testing::simulated_journal({.crash = 0.2});
  std::string all;
  for (int64_t i = 0; i < 12; ++i) {
    const TrialStory story = tell_story(journal, to_string(TrialId::of(5, i)), 0).value();
    for (const auto& moment : story.moments) all += moment.text + "\n";
  }
  EXPECT_THAT(all, HasSubstr("failed after step"));
  EXPECT_THAT(all, HasSubstr("from its checkpoint of step"));
  EXPECT_THAT(
      tell_story(journal, to_string(TrialId::of(5, 0)), 0).value().moments.front().text.text(Language::kChinese),
      HasSubstr("由 random search 建议，第 1 个"));
}

TEST(TrialStories, OfUnknownTrialsNameNearOnes) {
  const JournalContents journal = testing::simulated_journal({});
  const auto story = tell_story(journal, "zzzz", 1);
  EXPECT_EQ(story.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(story.error().message, HasSubstr("the nearest: "));
}

TEST(TrialStories, OfJournalsWithoutReasonsSaySo) {
  JournalContents journal = testing::simulated_journal({});
  std::erase_if(journal.records,
                [](const JournalRecord& record) { return std::holds_alternative<JournalDecision>(record); });
  EXPECT_THAT(tell_story(journal, to_string(TrialId::of(5, 0)), 1).value().notice, HasSubstr("an earlier Volador"));
}

}  // namespace
}  // namespace volador::tune
