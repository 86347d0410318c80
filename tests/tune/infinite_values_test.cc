// NaN and infinities of either sign are not results: the same rule in searchers, schedulers, studies and stop
// conditions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/tune/odd_values.h"
#include "tune/loop/metric_board.h"
#include "tune/loop/stopper.h"
#include "tune/schedulers/asha_scheduler.h"
#include "tune/schedulers/hyperband_scheduler.h"
#include "tune/schedulers/median_stopping_scheduler.h"
#include "tune/schedulers/percentile_scheduler.h"
#include "tune/schedulers/wilcoxon_scheduler.h"
#include "tune/searchers/bohb_searcher.h"
#include "tune/searchers/cmaes_searcher.h"
#include "tune/searchers/gp_searcher.h"
#include "tune/searchers/nsga2_searcher.h"
#include "tune/searchers/tpe_searcher.h"
#include "tune/study/study.h"

namespace volador::tune {
namespace {

constexpr double kNoResults[] = {kNan, kInfinity, -kInfinity};

TEST(NoResult, RanksBehindAllNumbersAndEqualAmongEachOther) {
  for (const Mode mode : {Mode::kMin, Mode::kMax}) {
    for (const double none : kNoResults) {
      EXPECT_FALSE(is_result(none));
      EXPECT_TRUE(better(1e300, none, mode));
      EXPECT_TRUE(better(-1e300, none, mode));
      EXPECT_FALSE(better(none, 1e300, mode));
      EXPECT_FALSE(better(none, -1e300, mode));
      for (const double other : kNoResults) EXPECT_FALSE(better(none, other, mode));
    }
  }
}

// A searcher treats any of them like NaN.
TEST(NoResult, IsAFailedTrialToSearchers) {
  const Space space = {{"x", uniform(-5, 5)}, {"y", uniform(-5, 5)}};
  for (const auto& factory : {tpe({.n_startup_trials = 4}), cmaes({.population = 4}), gp({.n_startup_trials = 4}),
                              bohb({.max_t = 3, .min_points_in_model = 3}), nsga2({.population_size = 4})}) {
    for (const Mode mode : {Mode::kMin, Mode::kMax}) {
      std::vector<std::string> after;
      for (const double none : kNoResults) {
        const auto searcher =
            factory({.space = space, .metric = "m", .mode = mode, .num_samples = -1, .seed = 3}).value();
        std::string configs = searcher->describe();
        for (int64_t i = 0; i < 20; ++i) {
          const Config config = searcher->suggest(i).value().config;
          configs += config.to_json();
          const double value = i % 4 == 1 ? none : config.real("x");
          searcher->on_result({i, 3, value});
          searcher->on_complete(i, Observation{i, 3, value});
        }
        after.push_back(configs);
      }
      EXPECT_EQ(after[1], after[0]);
      EXPECT_EQ(after[2], after[0]);
    }
  }
}

// Outcome of a trial that reports nothing else, among others that report numbers.
TEST(NoResult, IsTheWorstToSchedulers) {
  const SchedulerFactory all[] = {asha({.max_t = 9, .reduction_factor = 3}),
                                  asha({.max_t = 9, .reduction_factor = 3, .variant = AshaVariant::kPromotion}),
                                  hyperband({.max_t = 9, .eta = 3}),
                                  median_stopping({.grace_period = 1}),
                                  percentile_pruner({.n_startup_trials = 1}),
                                  wilcoxon_pruner({})};
  for (const SchedulerFactory& factory : all) {
    for (const Mode mode : {Mode::kMin, Mode::kMax}) {
      std::vector<std::string> decisions;
      for (const double none : kNoResults) {
        const auto scheduler = factory({.metric = "m", .mode = mode, .seed = 1}).value();
        std::string said = scheduler->describe();
        for (uint32_t trial = 0; trial < 8; ++trial) scheduler->on_trial_add(TrialId(trial));
        for (int64_t step = 1; step <= 9; ++step) {
          for (uint32_t trial = 0; trial < 8; ++trial) {
            const double value = trial == 3 || (trial == 5 && step == 2) ? none : 1.0 + trial;
            const auto decision = scheduler->on_report({TrialId(trial), step, value});
            said += decision ? "CSFPKX"[static_cast<int>(*decision)] : '!';
            if (trial == 0 && step == 9) scheduler->on_complete(TrialId(trial));
          }
        }
        decisions.push_back(said);
      }
      EXPECT_EQ(decisions[1], decisions[0]);
      EXPECT_EQ(decisions[2], decisions[0]);
    }
  }
}

TEST(NoResult, IsNeverTheBestOfAStudyOrARun) {
  for (const Mode mode : {Mode::kMin, Mode::kMax}) {
    Study study({.space = {{"x", uniform(0, 1)}}, .mode = mode});
    MetricBoard board("m", mode);
    int64_t index = 0;
    for (const double none : kNoResults) {
      study.tell(study.ask(), none);
      EXPECT_FALSE(board.add(index++, {{"m", none}}));
    }
    EXPECT_FALSE(study.best());
    EXPECT_FALSE(board.best());
    study.tell(study.ask(), 7);
    EXPECT_TRUE(board.add(index, {{"m", 7}}));
    study.tell(study.ask(), mode == Mode::kMin ? -kInfinity : kInfinity);
    EXPECT_FALSE(board.add(index + 1, {{"m", mode == Mode::kMin ? -kInfinity : kInfinity}}));
    ASSERT_TRUE(study.best());
    EXPECT_EQ(study.best()->value, 7);
    EXPECT_EQ(board.best(), index);
  }
}

TEST(NoResult, IsOnNoFront) {
  Study study({.space = {{"x", uniform(0, 1)}}, .modes = {Mode::kMin, Mode::kMax}, .searcher = nsga2()});
  study.tell(study.ask(), {-kInfinity, 1.0});
  study.tell(study.ask(), {1.0, kInfinity});
  EXPECT_TRUE(study.front().empty());
  study.tell(study.ask(), {1.0, 1.0});
  EXPECT_EQ(study.front().size(), 1U);
}

}  // namespace
}  // namespace volador::tune
