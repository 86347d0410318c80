#include "tune/schedulers/median_stopping_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/random.h"
#include "tune/space/config.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

// Trials 1, 2, …; times begin at 0, as in Ray Tune's test vectors; here they are steps counted from 1.
struct MedianExperiment {
  std::unique_ptr<MedianStoppingScheduler> scheduler;
  double sign;

  // Grace periods as in the vectors: times before it.
  MedianExperiment(int64_t grace, int64_t min_samples, bool hard_stop = true, Mode mode = Mode::kMax)
      : scheduler(MedianStoppingScheduler::create(
                      {.grace_period = grace + 1, .min_samples_required = min_samples, .hard_stop = hard_stop},
                      {.metric = "m", .mode = mode})
                      .value()),
        sign(mode == Mode::kMax ? 1 : -1) {}

  char report(uint32_t trial, int64_t time, double value) {
    scheduler->on_trial_add(TrialId(trial));
    const Decision decision = scheduler->on_report({TrialId(trial), time + 1, sign * value}).value();
    scheduler->check_invariants();
    return "CSFP"[static_cast<int>(decision)];
  }
  void complete(uint32_t trial, int64_t time, double value) {
    report(trial, time, value);
    scheduler->on_complete(TrialId(trial));
  }
  void basic_setup() {
    for (int i = 0; i < 10; ++i) EXPECT_EQ(report(1, i, 100.0 * i), 'C') << i;
    for (int i = 0; i < 5; ++i) EXPECT_EQ(report(2, i, 450.0), 'C') << i;
  }
};

class MedianStopping : public ::testing::TestWithParam<Mode> {};
INSTANTIATE_TEST_SUITE_P(Modes, MedianStopping, ::testing::Values(Mode::kMax, Mode::kMin));

TEST_P(MedianStopping, StopsATrialOfConstantPerformance) {
  MedianExperiment experiment(0, 1, true, GetParam());
  experiment.basic_setup();
  experiment.complete(1, 10, 1000);
  EXPECT_EQ(experiment.report(2, 5, 450), 'C');
  EXPECT_EQ(experiment.report(2, 6, 0), 'C');
  EXPECT_EQ(experiment.report(2, 10, 450), 'S');
}

TEST_P(MedianStopping, ComparesWithTrialsThatCameAsFarOnly) {
  MedianExperiment experiment(0, 1, true, GetParam());
  experiment.basic_setup();
  EXPECT_EQ(experiment.report(2, 100, 0), 'C');
  experiment.complete(1, 101, 1000);
  EXPECT_EQ(experiment.report(2, 101, 0), 'S');
}

TEST_P(MedianStopping, LeavesTheGracePeriodAlone) {
  MedianExperiment experiment(3, 1, true, GetParam());
  experiment.basic_setup();
  experiment.complete(1, 10, 1000);
  experiment.complete(2, 10, 1000);
  EXPECT_EQ(experiment.report(3, 1, 10), 'C');
  EXPECT_EQ(experiment.report(3, 2, 10), 'C');
  EXPECT_EQ(experiment.report(3, 3, 10), 'S');
}

TEST_P(MedianStopping, WaitsForEnoughOthers) {
  MedianExperiment experiment(0, 2, true, GetParam());
  experiment.basic_setup();
  experiment.complete(1, 10, 1000);
  EXPECT_EQ(experiment.report(3, 5, 10), 'C');  // Trial 2 has reached 4.
  experiment.complete(2, 5, 1000);
  EXPECT_EQ(experiment.report(4, 5, 10), 'S');
}

TEST_P(MedianStopping, UsesTheMedian) {
  MedianExperiment experiment(0, 1, true, GetParam());
  experiment.basic_setup();
  experiment.complete(1, 10, 1000);
  experiment.complete(2, 10, 1000);
  EXPECT_EQ(experiment.report(3, 1, 260), 'C');  // (50 + 450) / 2.
  EXPECT_EQ(experiment.report(3, 2, 260), 'S');  // (100 + 450) / 2.
}

TEST_P(MedianStopping, PausesInsteadWhereAskedAndLetsGoWhenNothingElseIsLeft) {
  MedianExperiment experiment(0, 1, false, GetParam());
  experiment.basic_setup();
  experiment.complete(1, 10, 1000);
  experiment.complete(2, 10, 1000);
  EXPECT_EQ(experiment.report(3, 1, 260), 'C');
  EXPECT_EQ(experiment.report(3, 2, 260), 'P');
  EXPECT_EQ(experiment.report(3, 3, 260), 'P');
  EXPECT_TRUE(experiment.scheduler->take_orders().empty());
  experiment.scheduler->on_no_more_trials();
  const auto orders = experiment.scheduler->take_orders();
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(std::get<ResumeOrder>(orders[0]).trial, TrialId(3));
  EXPECT_EQ(experiment.report(3, 4, 0), 'C');  // Judged once.
  EXPECT_EQ(experiment.report(4, 2, 0), 'C');  // A pause would no longer have any effect.
}

// All decisions on a random stream, compared with a direct implementation that keeps every result.
TEST(MedianStoppingRule, DecidesAsWithAllResultsAtHand) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SeededRandom random(seed);
    const auto grace = 1 + static_cast<int64_t>(random.below(4));
    const auto samples = 1 + static_cast<int64_t>(random.below(4));
    const auto scheduler = MedianStoppingScheduler::create({.grace_period = grace, .min_samples_required = samples},
                                                           {.metric = "m", .mode = Mode::kMin})
                               .value();
    std::vector<std::vector<std::pair<int64_t, double>>> results(12);
    std::vector<bool> stopped(results.size());
    for (int i = 0; i < 600; ++i) {
      const size_t t = random.below(results.size());
      if (stopped[t]) continue;
      scheduler->on_trial_add(TrialId(static_cast<uint32_t>(t)));
      const int64_t step = (results[t].empty() ? 0 : results[t].back().first) + 1 +
                           static_cast<int64_t>(random.below(8) == 0 ? random.below(3) : 0);
      const double value = random.real() + 0.1 * static_cast<double>(t);
      results[t].emplace_back(step, value);
      std::vector<double> means;
      for (size_t other = 0; other < results.size(); ++other) {
        if (other == t || results[other].empty() || results[other].back().first < step) continue;
        double sum = 0;
        int count = 0;
        for (const auto& [at, v] : results[other]) {
          if (at < grace || at > step) continue;
          sum += v;
          ++count;
        }
        if (count > 0) means.push_back(sum / count);
      }
      double best = HUGE_VAL;
      for (const auto& [at, v] : results[t]) best = std::min(best, v);
      bool stop = false;
      if (step >= grace && static_cast<int64_t>(means.size()) >= samples) {
        std::sort(means.begin(), means.end());
        const size_t n = means.size();
        stop = best > (means[n / 2] + means[(n - 1) / 2]) / 2;
      }
      stopped[t] = stop;
      const Decision decided = scheduler->on_report({TrialId(static_cast<uint32_t>(t)), step, value}).value();
      ASSERT_EQ(decided, stop ? Decision::kStop : Decision::kContinue) << "seed " << seed << " report " << i;
    }
    scheduler->check_invariants();
  }
}

TEST(MedianStoppingRule, LeavesNanOutAndRanksATrialOfNanLast) {
  const double nan = std::nan("");
  MedianExperiment experiment(0, 2);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(experiment.report(1, i, i == 2 ? nan : 10), 'C');
    EXPECT_EQ(experiment.report(2, i, 20), 'C');
  }
  EXPECT_EQ(experiment.report(3, 3, 16), 'C');  // The median of 10 and 20.
  EXPECT_EQ(experiment.report(4, 3, nan), 'S');
  EXPECT_EQ(experiment.report(5, 3, 9), 'S');
}

TEST(MedianStoppingRule, NamesTheOptionThatIsOutOfRange) {
  const auto message = [](const MedianStoppingOptions& options, const std::string& metric = "m") {
    const auto made = MedianStoppingScheduler::create(options, {.metric = metric});
    return made ? std::string("accepted") : made.error().message;
  };
  EXPECT_THAT(message({.grace_period = 0}), HasSubstr("median_stopping.grace_period: expected 1 to 2^53 steps, got 0"));
  EXPECT_THAT(message({.min_samples_required = 0}),
              HasSubstr("median_stopping.min_samples_required: expected at least 1 trial, got 0"));
  EXPECT_THAT(message({}, ""), HasSubstr("set .metric"));
  EXPECT_EQ(message({}), "accepted");
}

}  // namespace
}  // namespace volador::tune
