#include "worker/hosts/host_questions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace volador::worker {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr BootTime kNow{1000s};
const HostId kHost1{{1}}, kHost2{{2}};

protocol::ReadStacks stacks_of(uint64_t request) {
  protocol::ReadStacks asked;
  asked.set_request(request);
  asked.set_actor_id("the actor");
  return asked;
}
protocol::ReadTimeline timeline_of(uint64_t request) {
  protocol::ReadTimeline asked;
  asked.set_request(request);
  return asked;
}

TEST(HostQuestions, AnAnswerGoesBackUnderTheHeadsNumber) {
  HostQuestions questions;
  const auto asked = questions.read_stacks(kNow, stacks_of(70), kHost1);
  ASSERT_EQ(asked.ask.size(), 1u);
  EXPECT_EQ(asked.ask[0].host, kHost1);
  EXPECT_EQ(asked.ask[0].message.read_stacks().actor_id(), "the actor");
  protocol::Stacks answer;
  answer.set_request(asked.ask[0].message.read_stacks().request());
  answer.set_pid(7);
  const auto told = questions.on_stacks(answer);
  ASSERT_EQ(told.answers.size(), 1u);
  EXPECT_EQ(told.answers[0].stacks().request(), 70u);
  EXPECT_EQ(told.answers[0].stacks().pid(), 7);
  EXPECT_TRUE(questions.on_stacks(answer).answers.empty()) << "once";
  EXPECT_EQ(questions.next_tick(), std::nullopt);
}

TEST(HostQuestions, AnActorWithoutAProcessIsAnsweredAtOnce) {
  HostQuestions questions;
  const auto told = questions.read_stacks(kNow, stacks_of(70), std::nullopt);
  ASSERT_EQ(told.answers.size(), 1u);
  EXPECT_EQ(told.answers[0].stacks().error().code(), static_cast<int>(ErrorCode::kUnavailable));
}

TEST(HostQuestions, AProcessThatStandsStillIsSaidToAfterItsTime) {
  HostQuestions questions;
  questions.read_stacks(kNow, stacks_of(70), kHost1);
  EXPECT_EQ(questions.next_tick(), kNow + HostQuestions::kPatience);
  EXPECT_TRUE(questions.on_tick(kNow + 1s).answers.empty());
  const auto told = questions.on_tick(kNow + HostQuestions::kPatience);
  ASSERT_EQ(told.answers.size(), 1u);
  EXPECT_EQ(told.answers[0].stacks().error().code(), static_cast<int>(ErrorCode::kTimeout));
  EXPECT_THAT(told.answers[0].stacks().error().message(), HasSubstr("did not answer within 6 s: it may be stopped"));
}

TEST(HostQuestions, ATimelineWaitsForAllAndSaysHowManyAreMissing) {
  HostQuestions questions;
  const auto asked = questions.read_timeline(kNow, timeline_of(71), {kHost1, kHost2});
  ASSERT_EQ(asked.ask.size(), 2u);
  protocol::Timeline one;
  one.set_request(asked.ask[1].message.read_timeline().request());
  one.add_hosts()->set_pid(2);
  EXPECT_TRUE(questions.on_timeline(one).answers.empty());
  EXPECT_TRUE(questions.on_timeline(one).answers.empty()) << "repeated";
  const auto told = questions.on_tick(kNow + HostQuestions::kPatience);
  ASSERT_EQ(told.answers.size(), 1u);
  EXPECT_EQ(told.answers[0].timeline().request(), 71u);
  ASSERT_EQ(told.answers[0].timeline().hosts_size(), 1);
  EXPECT_EQ(told.answers[0].timeline().silent(), 1);
  one.set_request(asked.ask[0].message.read_timeline().request());
  EXPECT_TRUE(questions.on_timeline(one).answers.empty()) << "too late";
}

TEST(HostQuestions, ANodeWithoutProcessesHasAnEmptyTimeline) {
  HostQuestions questions;
  const auto told = questions.read_timeline(kNow, timeline_of(72), {});
  ASSERT_EQ(told.answers.size(), 1u);
  EXPECT_EQ(told.answers[0].timeline().request(), 72u);
  EXPECT_EQ(told.answers[0].timeline().silent(), 0);
}

TEST(HostQuestions, BeyondTheLimitTheyAreRefusedAndAHeadThatIsGoneIsAnsweredNothing) {
  HostQuestions questions;
  for (size_t at = 0; at < HostQuestions::kMost; ++at)
    ASSERT_EQ(questions.read_stacks(kNow, stacks_of(at), kHost1).ask.size(), 1u);
  const auto refused = questions.read_stacks(kNow, stacks_of(7), kHost1);
  EXPECT_TRUE(refused.ask.empty());
  EXPECT_THAT(refused.answers.at(0).stacks().error().message(), HasSubstr("1000 questions wait"));
  EXPECT_EQ(questions.read_timeline(kNow, timeline_of(8), {kHost1}).answers.at(0).timeline().silent(), 1);
  questions.clear();
  EXPECT_TRUE(questions.on_tick(kNow + 1h).answers.empty());
}

}  // namespace
}  // namespace volador::worker
