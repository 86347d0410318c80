#include "tune/searchers/warm_start.h"

#include <gmock/gmock.h>

#include <cmath>

#include "run_in_process.h"
#include "searcher_runs.h"
#include "tune/execution/run_setup.h"
#include "tune/results/replay_audit.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

// Minimum at (0.7, 0.2).
double bowl(const Config& config) {
  const double x = config.real("x") - 0.7, y = config.real("y") - 0.2;
  return x * x + y * y;
}
void falls(const Config& config) { report({{"loss", bowl(config)}}); }

Space plane() { return {{"x", uniform(0, 1)}, {"y", uniform(0, 1)}}; }

std::vector<EarlierTrial> lessons(int64_t count) {
  std::vector<EarlierTrial> trials;
  SeededRandom random(5);
  for (int64_t i = 0; i < count; ++i) {
    EarlierTrial trial{{{"x", random.real()}, {"y", random.real()}}};
    const double loss = bowl(trial.config);
    trial.curve = {{1, loss + 1}, {3, loss}, {9, loss}};
    trial.last = Observation{i, 9, loss, {loss}, {}};
    trials.push_back(std::move(trial));
  }
  return trials;
}

std::unique_ptr<Searcher> make(const SearcherFactory& factory, Space space = plane(), Goals goals = {}) {
  return std::move(factory({.space = std::move(space),
                            .metric = "loss",
                            .mode = Mode::kMin,
                            .num_samples = 200,
                            .seed = 11,
                            .goals = std::move(goals)}))
      .value();
}

struct Named {
  const char* name;
  SearcherFactory factory;
};
std::vector<Named> that_learn() {
  return {{"TPE", tpe()},
          {"GP", gp()},
          {"CMA-ES", cmaes()},
          {"BOHB", bohb({.max_t = 9, .eta = 3})},
          {"NSGA-II", nsga2({.population_size = 20})},
          {"limited TPE", concurrency_limiter({.max_concurrent = 16}, tpe())}};
}

TEST(WarmStart, EverySearcherThatLearnsBeginsWhereTheEarlierTrialsWereGood) {
  for (const Named& one : that_learn()) {
    const auto cold = make(one.factory), warm = make(one.factory);
    ASSERT_TRUE(warm->learn(lessons(100))) << one.name;
    double without = 0, with = 0;
    for (int64_t i = 0; i < 8; ++i) {
      without += bowl(cold->suggest(i).value().config) / 8;
      with += bowl(warm->suggest(i).value().config) / 8;
    }
    EXPECT_LT(with, without / 2) << one.name;
  }
}

TEST(WarmStart, TheSameTrialsGiveTheSameSuggestionsAndASnapshotGoesOnWithThem) {
  for (const Named& one : that_learn()) {
    const auto first = make(one.factory), second = make(one.factory), third = make(one.factory);
    ASSERT_TRUE(first->learn(lessons(30)));
    ASSERT_TRUE(second->learn(lessons(30)));
    ASSERT_TRUE(third->restore(first->snapshot())) << one.name;
    for (int64_t i = 0; i < 12; ++i) {
      const Config config = first->suggest(i).value().config;
      EXPECT_EQ(second->suggest(i).value().config, config) << one.name << " " << i;
      EXPECT_EQ(third->suggest(i).value().config, config) << one.name << " " << i;
      for (Searcher* searcher : {first.get(), second.get(), third.get()})
        searcher->on_complete(i, Observation{i, 1, bowl(config)});
    }
  }
}

TEST(WarmStart, InADiscreteSpaceNothingThatWasTriedIsProposedAgain) {
  const auto searcher = make(tpe(), {{"x", choice({0.1, 0.2, 0.3})}, {"y", choice({0.5, 0.6})}});
  ASSERT_TRUE(searcher->learn(
      {{{{"x", 0.2}, {"y", 0.5}}, {}, Observation{0, 1, 1.0}}, {{{"x", 0.3}, {"y", 0.6}}, {}, std::nullopt}}));
  for (int64_t i = 0; i < 4; ++i) {
    const Config config = searcher->suggest(i).value().config;
    EXPECT_FALSE(config.real("x") == 0.2 && config.real("y") == 0.5);
    EXPECT_FALSE(config.real("x") == 0.3 && config.real("y") == 0.6);
  }
}

TEST(WarmStart, AFailedTrialTeachesAsOneOfItsOwnThatFailed) {
  const auto told = make(tpe()), learned = make(tpe());
  ASSERT_TRUE(learned->learn({{{{"x", 0.1}, {"y", 0.1}}, {}, std::nullopt}}));
  EXPECT_EQ(learned->suggest(0).value().config, told->suggest(0).value().config);  // It has no value yet.
}

TEST(WarmStart, ASearcherThatLearnsNothingRefuses) {
  for (const SearcherFactory& factory : {random_search(), sobol_search(), halton_search(),
                                         concurrency_limiter({.max_concurrent = 1}, random_search())}) {
    const auto learned = make(factory)->learn(lessons(3));
    ASSERT_FALSE(learned);
    EXPECT_THAT(learned.error().message, AllOf(HasSubstr("warm_start"), HasSubstr("learns nothing")));
  }
}

class WarmStartRunTest : public RunInProcess {
 protected:
  Result<Analysis> falls_down(RunOptions options) {
    options.metric = "loss";
    options.mode = Mode::kMin;
    if (options.space.entries().empty()) options.space = plane();
    return run(with_parameters<falls>(), std::move(options));
  }
};

TEST_F(WarmStartRunTest, LearnsFromEarlierRunsAndGoesOnWithoutThem) {
  const auto first = falls_down({.name = "first", .num_samples = 30});
  ASSERT_TRUE(first) << first.error().message;
  RunOptions options = {.name = "second",
                        .num_samples = 6,
                        .searcher = tpe({.n_startup_trials = 10}),
                        .max_concurrent_trials = 1,
                        .warm_start = {first->directory()}};
  const auto second = falls_down(options);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_THAT(second->notices(), Contains(HasSubstr("warm start: 30 trials of " + first->directory().string())));
  // Without it the first ten would be random.
  RunOptions cold = options;
  cold.warm_start.clear();
  const auto third = falls_down(cold);
  ASSERT_TRUE(third);
  EXPECT_NE(second->trials()[0].config, third->trials()[0].config);
  // The journal contains the learned trials: the earlier run may be deleted.
  fs::remove_all(first->directory());
  options.metric = "loss";
  options.mode = Mode::kMin;
  options.space = plane();
  options.resume = second->directory();
  auto prepared = prepare_run(with_parameters<falls>(), options, random_);
  ASSERT_TRUE(prepared) << prepared.error().message;
  const ReplayReport audit = audit_replay(*prepared->earlier, *prepared->loop, *prepared->recording);
  EXPECT_EQ(audit.suggestions, 6);
  EXPECT_EQ(audit.differences, 0) << ::testing::PrintToString(audit.shown);
  options.num_samples = 12;
  const auto more = falls_down(options);
  ASSERT_TRUE(more) << more.error().message;
  ASSERT_EQ(more->trials().size(), 12U);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(more->trials()[i].config, second->trials()[i].config);
  options.warm_start = {};
  const auto other = falls_down(options);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("warm_start"));
}

TEST_F(WarmStartRunTest, SaysWhatIsNoConfigurationOfThisSpace) {
  const auto first =
      falls_down({.name = "first", .space = {{"x", uniform(0, 2)}, {"y", uniform(0, 1)}}, .num_samples = 20});
  ASSERT_TRUE(first) << first.error().message;
  const auto second = falls_down({.searcher = tpe(), .warm_start = {first->directory()}});
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_THAT(second->notices(), Contains(HasSubstr("are no configurations of this space and were left out")));
  const auto refused = falls_down(
      {.space = {{"x", uniform(5, 6)}, {"y", uniform(0, 1)}}, .searcher = tpe(), .warm_start = {first->directory()}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("none of the 20 configurations"), HasSubstr("now it is \"x ")));
}

TEST_F(WarmStartRunTest, RefusesWhatIsNoRunAnotherMetricAndASearcherThatLearnsNothing) {
  const auto first = falls_down({.name = "first", .num_samples = 3});
  ASSERT_TRUE(first);
  const auto message = [](const Result<Analysis>& analysis) {
    return analysis ? "not refused" : analysis.error().message;
  };
  EXPECT_THAT(message(falls_down({.searcher = tpe(), .warm_start = {directory_.path() / "nowhere"}})),
              AllOf(HasSubstr("warm_start"), HasSubstr("nowhere")));
  EXPECT_THAT(message(falls_down({.warm_start = {first->directory()}})), HasSubstr("learns nothing"));
  EXPECT_THAT(
      message(run(with_parameters<falls>(),
                  {.space = plane(), .metric = "accuracy", .searcher = tpe(), .warm_start = {first->directory()}})),
      HasSubstr("never reported \"accuracy\"; its trials report: loss"));
}

}  // namespace
}  // namespace volador::tune
