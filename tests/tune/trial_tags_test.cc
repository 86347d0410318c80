// Tags of single trials: set inside trials and by callbacks, stored in journal and state file.
#include "tune/execution/trial_tags.h"

#include <gmock/gmock.h>

#include "tests/tune/run_in_process.h"

namespace volador::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(TrialTags, AreWordsAndEachCountsOnce) {
  EXPECT_TRUE(check_tag("kind=warm"));
  for (const char* bad : {"", "two words", "a,b", "line\nend"}) EXPECT_FALSE(check_tag(bad)) << bad;
  EXPECT_TRUE(check_tag(std::string(kTagBytesMax, 'x')));
  EXPECT_FALSE(check_tag(std::string(kTagBytesMax + 1, 'x')));
  std::vector<std::string> tags;
  EXPECT_TRUE(add_tag(tags, "a"));
  EXPECT_FALSE(add_tag(tags, "a"));
  for (size_t i = 0; i < 2 * kTagsMax; ++i) (void)add_tag(tags, "t" + std::to_string(i));
  EXPECT_EQ(tags.size(), kTagsMax);
}

TEST(TrialTags, HaveNoMeaningElsewhere) {
  EXPECT_THROW(tag("lost"), Exception);
  EXPECT_THROW(tag(Trial{}, "lost"), Exception);
}

class Steps : public Trainable {
  void setup(const Config&) override { tag("begun"); }
  Metrics step() override {
    if (++step_ == 2) tag("second");
    tag("begun");
    return {{"score", step_}};
  }
  void save_checkpoint(const std::filesystem::path& directory) override {
    write_text(directory / "step", std::to_string(step_));
  }
  void load_checkpoint(const std::filesystem::path& directory) override {
    step_ = std::stoll(read_text(directory / "step"));
  }
  int64_t step_ = 0;
};
VOLADOR_TRAINABLE(Steps);

void reports_once(const Config&) {
  tag("early");
  report({{"score", 1}});
  tag("late");
}

void too_many(const Config&) {
  for (size_t i = 0; i <= kTagsMax; ++i) tag("t" + std::to_string(i));
  report({{"score", 1}});
}

void bad(const Config&) {
  tag("two words");
  report({{"score", 1}});
}

class Marks : public Callback {
  void on_trial_result(const Trial& trial, const Metrics& result) override {
    if (result.at("score") == 1) tag(trial, "seen");
  }
  void on_trial_complete(const Trial& trial) override { tag(trial, "done"); }
};

class TrialTagsRun : public RunInProcess {};

TEST_F(TrialTagsRun, ComeFromTheTrialAndFromCallbacks) {
  const auto analysis = run(with_parameters<Steps>(), {.stop = max_steps(2), .callbacks = {std::make_shared<Marks>()}});
  ASSERT_TRUE(analysis) << analysis.error().message;
  const std::vector<std::string>& tags = analysis->trials()[0].tags;
  EXPECT_THAT(tags, ::testing::UnorderedElementsAre("begun", "second", "seen", "done"));
  EXPECT_EQ(tags.back(), "done");
  const auto loaded = Analysis::load(analysis->directory());
  EXPECT_EQ(loaded.trials()[0].tags, tags);
  ASSERT_FALSE(session_->reports().empty());
  EXPECT_EQ(session_->reports().back().trials.at(0).tags, tags);
}

TEST_F(TrialTagsRun, OfAFunctionAlsoTheLastOnesCount) {
  const auto analysis = run(with_parameters<reports_once>(), {});
  ASSERT_TRUE(analysis) << analysis.error().message;
  EXPECT_THAT(analysis->trials()[0].tags, ElementsAre("early", "late"));
}

TEST_F(TrialTagsRun, ARunThatGoesOnKnowsThem) {
  RunOptions options = {
      .stop = max_steps(1'000'000), .checkpoint = {.frequency = 1}, .callbacks = {std::make_shared<Marks>()}};
  options.time_budget = std::chrono::milliseconds(150);
  const auto first = run(with_parameters<Steps>(), options);
  ASSERT_TRUE(first) << first.error().message;
  const std::vector<std::string> tags = first->trials()[0].tags;
  ASSERT_THAT(tags, ::testing::IsSupersetOf({"begun", "second", "seen", "done"}));
  options.resume = first->directory();
  options.callbacks = {};
  const auto second = run(with_parameters<Steps>(), options);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->trials()[0].tags, tags);
}

TEST_F(TrialTagsRun, WhatIsNoTagFailsTheAttemptWithTheRule) {
  const auto words = run(with_parameters<bad>(), {});
  ASSERT_TRUE(words) << words.error().message;
  EXPECT_THAT(words->trials()[0].error, HasSubstr("tune::tag: \"two words\": a tag has 1 to 64 characters"));
  const auto many = run(with_parameters<too_many>(), {});
  ASSERT_TRUE(many) << many.error().message;
  EXPECT_THAT(many->trials()[0].error, HasSubstr("at most 32 tags"));
  EXPECT_THAT(many->trials()[0].tags, IsEmpty());
}

}  // namespace
}  // namespace volador::tune
