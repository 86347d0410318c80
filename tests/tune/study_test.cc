#include "tune/study/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tune/searchers/search_wrappers.h"
#include "tune/searchers/tpe_searcher.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

const Space kLine = {{"x", uniform(-5, 5)}};
double parabola(const Config& config) { return std::pow(config.real("x") - 2, 2); }

template <class F>
std::string refusal(F&& call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.error().message;
  }
  return "";
}

TEST(Study, FindsWhatTheCallersLoopLooksFor) {
  Study study({.space = kLine, .searcher = tpe({.seed = 7})});
  EXPECT_FALSE(study.best().has_value());
  for (int i = 0; i < 60; ++i) {
    const auto trial = study.ask();
    study.tell(trial, parabola(trial.config));
  }
  EXPECT_EQ(study.size(), 60);
  EXPECT_LT(study.best()->value, 0.05);
  EXPECT_NEAR(study.best()->trial.config.real("x"), 2, 0.25);
}

TEST(Study, LearnsFromEarlierRunsAndPointsOfTheCaller) {
  Study study({.space = kLine, .mode = Mode::kMax});
  for (int i = 0; i < 12; ++i) study.add({{"x", 3 + 0.01 * i}}, i);
  study.add({{"x", -1.0}}, std::nullopt);
  EXPECT_EQ(study.best()->value, 11);
  double sum = 0;
  for (int i = 0; i < 20; ++i) sum += study.ask().config.real("x") / 20;
  EXPECT_GT(sum, 1);
}

// Counts the proposals that a study with TPE computes.
SearcherFactory counted_tpe(int64_t& proposals) {
  class Counting final : public Searcher {
   public:
    Counting(std::unique_ptr<Searcher> inner, int64_t& proposals) : inner_(std::move(inner)), proposals_(proposals) {}
    Result<Suggestion> suggest(int64_t index) override {
      ++proposals_;
      return inner_->suggest(index);
    }
    bool skip(int64_t index, const Config& config) override { return inner_->skip(index, config); }
    void on_start(int64_t index, const Config& config) override { inner_->on_start(index, config); }
    void on_result(const Observation& observation) override { inner_->on_result(observation); }
    void on_complete(int64_t index, const std::optional<Observation>& last) override {
      inner_->on_complete(index, last);
    }
    std::optional<int64_t> total() const override { return inner_->total(); }
    bool learns() const override { return true; }
    bool needs_metric() const override { return true; }
    std::string describe() const override { return inner_->describe(); }
    std::string snapshot() const override { return inner_->snapshot(); }
    Result<void> restore(std::string_view snapshot) override { return inner_->restore(snapshot); }

   private:
    std::unique_ptr<Searcher> inner_;
    int64_t& proposals_;
  };
  return [&proposals](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    return std::make_unique<Counting>(tpe()(context).value(), proposals);
  };
}

TEST(Study, ComputesNoProposalForATrialOfAnEarlierRun) {
  int64_t proposals = 0;
  Study study({.space = kLine, .searcher = counted_tpe(proposals), .seed = 3});
  for (int i = 0; i < 200; ++i) study.add({{"x", 0.02 * i - 2}}, 0.02 * i);
  EXPECT_EQ(proposals, 0);
  EXPECT_EQ(study.size(), 200);
  EXPECT_LT(study.ask().config.real("x"), 0);
  EXPECT_EQ(proposals, 1);
}

TEST(Study, LearnsNothingFromAConfigurationOfAnotherSpace) {
  Study study({.space = kLine, .seed = 3}), other({.space = kLine, .seed = 3});
  for (int i = 0; i < 30; ++i) study.add({{"y", 1.0}}, -100.0 - i);
  for (int i = 0; i < 30; ++i) other.add({{"y", 2.0}}, std::nullopt);
  EXPECT_EQ(study.best()->value, -129);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(study.ask().config, other.ask().config);
}

TEST(Study, CountsNoFailedTrialAsTheBest) {
  Study study({.space = kLine});
  study.tell(study.ask(), std::nullopt);
  study.tell(study.ask(), std::nan(""));
  EXPECT_FALSE(study.best().has_value());
}

TEST(Study, GoesOnTheSameFromASnapshot) {
  Study one({.space = kLine, .seed = 3});
  for (int i = 0; i < 15; ++i) {
    const auto trial = one.ask();
    one.tell(trial, parabola(trial.config));
  }
  const auto open = one.ask();
  Study other({.space = kLine, .seed = 3});
  other.restore(one.snapshot());
  other.tell(open, parabola(open.config));
  one.tell(open, parabola(open.config));
  EXPECT_EQ(other.best()->value, one.best()->value);
  EXPECT_EQ(other.ask().config, one.ask().config);
  EXPECT_EQ(other.snapshot(), one.snapshot());
}

TEST(Study, RefusesWhatIsNotOpenAndWhatWaits) {
  Study study({.space = kLine, .searcher = concurrency_limiter({.max_concurrent = 1}, tpe())});
  const auto trial = study.ask();
  EXPECT_THAT(refusal([&] { study.ask(); }), HasSubstr("waits for results of 1 open trial: tell one of them first"));
  study.tell(trial, 1);
  EXPECT_THAT(refusal([&] { study.tell(trial, 1); }), HasSubstr("trial 0 is not open"));
  EXPECT_THAT(refusal([&] { Study({.space = {{"x", uniform(1, 0)}}}); }), HasSubstr("space.x"));
  EXPECT_THAT(refusal([&] { study.restore("{"); }), HasSubstr("torn"));
}

}  // namespace
}  // namespace volador::tune
