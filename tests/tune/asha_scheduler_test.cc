#include "tune/schedulers/asha_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "runtime/random.h"
#include "tests/tune/odd_values.h"
#include "tune/space/config.h"

namespace volador::tune {
namespace {

Config asha_vectors() {
  std::ifstream file("tests/tune/data/asha_vectors.json");
  std::stringstream text;
  text << file.rdbuf();
  return Config::from_json(text.str()).value();
}

// A scheduler and the trials 1, 2, …; decisions are C, S and F.
struct AshaExperiment {
  std::unique_ptr<AshaScheduler> scheduler;

  explicit AshaExperiment(const AshaOptions& options, Mode mode = Mode::kMax)
      : scheduler(AshaScheduler::create(options, {.metric = "m", .mode = mode, .seed = 7}).value()) {}

  char report(uint32_t trial, int64_t step, double value) {
    scheduler->on_trial_add(TrialId(trial));
    const Decision decision = scheduler->on_report({TrialId(trial), step, value}).value();
    scheduler->check_invariants();
    return decision == Decision::kContinue ? 'C' : decision == Decision::kStop ? 'S' : 'F';
  }
  void complete(uint32_t trial) { scheduler->on_complete(TrialId(trial)); }
  // Trial 1 reports (i, 100 i) up to 9, trial 2 (i, 450) up to 4; all continue.
  void basic_setup(double sign = 1) {
    for (int i = 1; i < 10; ++i) EXPECT_EQ(report(1, i, sign * 100.0 * i), 'C') << i;
    for (int i = 1; i < 5; ++i) EXPECT_EQ(report(2, i, sign * 450.0), 'C') << i;
  }
};

AshaOptions as_ray(AshaOptions options) {
  options.rule = AshaRule::kRay;
  return options;
}

TEST(AshaRungs, AreMadeByMultiplication) {
  const Config all = asha_vectors()["rungs"];
  ASSERT_EQ(all.size(), 33u);
  for (const Config& vector : all.items()) {
    std::vector<double> expected;
    const Config milestones = vector["milestones"];
    for (const Config& milestone : milestones.items()) expected.insert(expected.begin(), milestone.real());
    EXPECT_EQ(asha_rungs(vector.real("grace"), vector.integer("max_t"), vector.real("rf"),
                         static_cast<int>(vector.integer("bracket"))),
              expected)
        << vector.to_json();
  }
  EXPECT_EQ(asha_rungs(1, 243, 3, 0).size(), 6u);
  EXPECT_EQ(asha_rungs(1, 1'000'000'000, 10, 0).size(), 10u);
}

TEST(AshaRayRule, DecidesTheRecordedStreamsAsRayDoes) {
  const Config streams = asha_vectors()["ray_asha_streams"];
  ASSERT_EQ(streams.size(), 3u);
  for (const Config& stream : streams.items()) {
    AshaExperiment ray_tune(as_ray({.grace_period = stream.integer("grace_period"),
                                    .max_t = stream.integer("max_t"),
                                    .reduction_factor = stream.real("reduction_factor"),
                                    .brackets = static_cast<int>(stream.integer("brackets"))}),
                            stream.text("mode") == "max" ? Mode::kMax : Mode::kMin);
    const Config events = stream["events_trial_iter_metric_decision"];
    int number = 0;
    for (const Config& event : events.items()) {
      const char decision =
          ray_tune.report(static_cast<uint32_t>(event[0].integer()), event[1].integer(), event[2].real());
      ASSERT_EQ(decision == 'C' ? "CONTINUE" : "STOP", event[3].text()) << "event " << number << " " << event.to_json();
      ++number;
    }
    EXPECT_GT(number, 290);
  }
}

TEST(AshaRayRule, StopsBeyondMaxT) {
  AshaExperiment experiment(as_ray({.max_t = 10}));
  experiment.basic_setup();
  EXPECT_EQ(experiment.report(3, 10, 1000), 'F');
  EXPECT_EQ(experiment.report(2, 101, 0), 'F');
}

TEST(AshaRayRule, LeavesTheGracePeriodAlone) {
  AshaExperiment experiment(as_ray({.grace_period = 3, .max_t = 100, .reduction_factor = 3}));
  experiment.basic_setup();
  EXPECT_EQ(experiment.report(1, 10, 1000), 'C');
  EXPECT_EQ(experiment.report(2, 10, 1000), 'C');
  experiment.complete(1);
  experiment.complete(2);
  EXPECT_EQ(experiment.report(3, 1, 10), 'C');
  EXPECT_EQ(experiment.report(3, 2, 10), 'C');
  EXPECT_EQ(experiment.report(3, 3, 10), 'S');
}

TEST(AshaRayRule, EndsEveryTrialAtMaxTInEveryBracket) {
  AshaExperiment experiment(as_ray({.max_t = 10, .brackets = 10}));
  for (uint32_t trial = 0; trial < 10; ++trial) EXPECT_EQ(experiment.report(trial, 10, -2), 'F');
}

TEST(AshaRayRule, UsesThePercentileOfThoseBefore) {
  AshaExperiment experiment(as_ray({.max_t = 10, .reduction_factor = 2}));
  experiment.basic_setup();
  EXPECT_EQ(experiment.report(3, 1, 260), 'S');  // Below (100 + 450) / 2.
  EXPECT_EQ(experiment.report(4, 2, 260), 'S');  // Below (200 + 450) / 2.
}

TEST(AshaRayRule, LetsNanPassAndLeavesItOut) {
  AshaExperiment experiment(as_ray({.max_t = 10, .reduction_factor = 2}));
  for (int i = 1; i < 10; ++i) EXPECT_EQ(experiment.report(1, i, 450), 'C');
  for (int i = 1; i < 10; ++i) EXPECT_EQ(experiment.report(2, i, kNan), 'C');
  EXPECT_EQ(experiment.report(3, 1, 260), 'S');
  EXPECT_EQ(experiment.report(4, 2, 260), 'S');
}

TEST(AshaRayRule, GoesOnTheSameAfterSaveAndRestore) {
  const AshaOptions options = as_ray({.max_t = 10, .reduction_factor = 2});
  AshaExperiment before(options);
  for (uint32_t trial = 1; trial <= 5; ++trial) EXPECT_EQ(before.report(trial, 1, 10), 'C');
  EXPECT_EQ(before.report(6, 1, 5), 'S');
  AshaExperiment after(options);
  ASSERT_TRUE(after.scheduler->restore(before.scheduler->snapshot()).has_value());
  EXPECT_EQ(after.report(7, 1, 4), 'S');
  EXPECT_EQ(after.report(8, 1, 2), 'S');
}

TEST(AshaRayRule, LetsTheLastTrialsRunOnWhereAsked) {
  AshaExperiment experiment(as_ray({.max_t = 3, .reduction_factor = 2, .stop_last_trials = false}));
  EXPECT_EQ(experiment.report(1, 2, 10), 'C');
  EXPECT_EQ(experiment.report(2, 2, 8), 'S');
  EXPECT_EQ(experiment.report(3, 2, 6), 'S');
  EXPECT_EQ(experiment.report(4, 2, 4), 'S');
  for (const int64_t step : {4, 8, 14}) EXPECT_EQ(experiment.report(1, step, step == 14 ? 1 : 10), 'C');
}

TEST(AshaRayRule, FollowsTheExampleOfItsBracket) {
  AshaExperiment experiment(as_ray({.max_t = 10, .reduction_factor = 2}));
  EXPECT_EQ(experiment.report(1, 1, 2), 'C');
  EXPECT_EQ(experiment.report(2, 1, 4), 'C');
  EXPECT_EQ(experiment.report(3, 1, 1), 'S');  // Cutoff 3, and 2 from now on.
  EXPECT_EQ(experiment.report(4, 1, 2), 'C');
}

TEST(AshaRayRule, MinimisesWithTheSignTurned) {
  for (const Mode mode : {Mode::kMax, Mode::kMin}) {
    const double sign = mode == Mode::kMax ? 1 : -1;
    AshaExperiment experiment(as_ray({.grace_period = 1}), mode);
    experiment.basic_setup(sign);
    EXPECT_EQ(experiment.report(1, 10, sign * 1000), 'C');
    experiment.complete(1);
    EXPECT_EQ(experiment.report(2, 5, sign * 450), 'C');
    EXPECT_EQ(experiment.report(2, 6, 0), 'C');
  }
}

TEST(AshaInclusiveRule, LetsTheBestFractionPass) {
  AshaExperiment experiment({.max_t = 9, .reduction_factor = 3});
  EXPECT_EQ(experiment.report(1, 1, 0.5), 'C');  // max(floor(1/3), 1) = 1 may pass.
  EXPECT_EQ(experiment.report(2, 1, 0.4), 'S');
  EXPECT_EQ(experiment.report(3, 1, 0.6), 'C');
  EXPECT_EQ(experiment.report(4, 1, 0.6), 'C');   // As good as the best.
  EXPECT_EQ(experiment.report(5, 1, 0.55), 'S');  // Two are better, floor(5/3) = 1 passes.
  EXPECT_EQ(experiment.report(6, 1, 0.55), 'S');
  EXPECT_EQ(experiment.report(7, 1, 0.7), 'C');
  EXPECT_EQ(experiment.report(8, 1, 0.65), 'C');  // One is better, floor(8/3) = 2 pass.
}

TEST(AshaInclusiveRule, MatchesTheSurvivorsOfDetermined) {
  // Ten trials, each worse than the previous: only the first reaches the end, nine stop at the first rung.
  AshaExperiment experiment({.grace_period = 100, .max_t = 900, .reduction_factor = 3}, Mode::kMin);
  for (uint32_t trial = 1; trial <= 10; ++trial) {
    EXPECT_EQ(experiment.report(trial, 99, trial), 'C');
    EXPECT_EQ(experiment.report(trial, 100, trial), trial == 1 ? 'C' : 'S');
  }
  EXPECT_EQ(experiment.report(1, 300, 1), 'C');
  EXPECT_EQ(experiment.report(1, 900, 1), 'F');
}

TEST(AshaInclusiveRule, StopsNanAndInfinitiesAtARungAndRanksThemLast) {
  AshaExperiment experiment({.grace_period = 2, .max_t = 9, .reduction_factor = 2});
  EXPECT_EQ(experiment.report(1, 1, kNan), 'C');  // Not at a rung.
  EXPECT_EQ(experiment.report(1, 2, kNan), 'S');
  EXPECT_EQ(experiment.report(2, 2, -1e300), 'C');
  EXPECT_EQ(experiment.report(3, 2, -INFINITY), 'S');
  EXPECT_EQ(experiment.report(4, 2, INFINITY), 'S');
}

TEST(AshaInclusiveRule, GivesRepeatedAndLateReportsTheStandingDecision) {
  AshaExperiment experiment({.max_t = 9, .reduction_factor = 3});
  EXPECT_EQ(experiment.report(1, 1, 0.5), 'C');
  EXPECT_EQ(experiment.report(2, 1, 0.9), 'C');
  EXPECT_EQ(experiment.report(1, 1, 0.1), 'C');
  EXPECT_EQ(experiment.report(3, 1, 0.1), 'S');
  EXPECT_EQ(experiment.report(3, 2, 1.0), 'S');
  EXPECT_EQ(experiment.report(2, 3, 0.9), 'C');
  EXPECT_EQ(experiment.report(2, 2, 0.0), 'C');
  const auto counts = experiment.scheduler->rung_counts();
  EXPECT_EQ(counts[0].trials, 3);
  EXPECT_EQ(counts[1].trials, 1);
}

TEST(AshaInclusiveRule, CountsAJumpForTheHighestRungOnly) {
  AshaExperiment experiment({.max_t = 81, .reduction_factor = 3});
  EXPECT_EQ(experiment.report(1, 10, 0.5), 'C');
  EXPECT_EQ(experiment.report(1, 11, 0.5), 'C');
  const auto counts = experiment.scheduler->rung_counts();
  EXPECT_EQ(counts[0].trials + counts[1].trials, 0);
  EXPECT_EQ(counts[2].trials, 1);
}

TEST(AshaInclusiveRule, KeepsAboutTheFractionOfManyTrials) {
  SeededRandom random(11);
  AshaExperiment experiment({.max_t = 100, .reduction_factor = 4});
  int passed = 0;
  for (uint32_t trial = 1; trial <= 300; ++trial) passed += experiment.report(trial, 1, random.real()) == 'C';
  EXPECT_NEAR(passed, 75, 12);
}

TEST(AshaScheduler, GivesTheSameBracketsInAnyOrder) {
  const AshaOptions options{.max_t = 81, .reduction_factor = 3, .brackets = 3};
  AshaExperiment forward(options);
  AshaExperiment backward(options);
  for (uint32_t trial = 1; trial <= 60; ++trial) forward.report(trial, 81, 1);
  for (uint32_t trial = 60; trial >= 1; --trial) backward.report(trial, 81, 1);
  const auto a = forward.scheduler->rung_counts();
  const auto b = backward.scheduler->rung_counts();
  ASSERT_EQ(a.size(), 12u);
  int used = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].trials, b[i].trials);
    used += a[i].trials > 0;
  }
  EXPECT_EQ(used, 3);  // The top rung of each bracket.
}

TEST(AshaScheduler, TheSeedSaysTheBracketsWhateverTheIds) {
  const AshaOptions options{.max_t = 81, .reduction_factor = 3, .brackets = 3};
  AshaExperiment one(options);
  AshaExperiment other(options);
  for (uint32_t trial = 1; trial <= 60; ++trial) one.report(trial, 81, 1);
  for (uint32_t trial = 1; trial <= 60; ++trial) other.report(trial * 7919 + 5, 81, 1);
  for (size_t i = 0; i < 12; ++i)
    EXPECT_EQ(one.scheduler->rung_counts()[i].trials, other.scheduler->rung_counts()[i].trials) << i;
}

TEST(AshaScheduler, RestoresItsWholeStateOrNothing) {
  const AshaOptions options{.max_t = 27, .reduction_factor = 3, .brackets = 2};
  AshaExperiment original(options);
  SeededRandom random(3);
  for (int i = 0; i < 200; ++i)
    original.report(static_cast<uint32_t>(random.below(30)), 1 + static_cast<int64_t>(random.below(27)),
                    random.below(9) == 0 ? kNan : random.real());
  original.complete(4);
  AshaExperiment copy(options);
  ASSERT_TRUE(copy.scheduler->restore(original.scheduler->snapshot()).has_value());
  copy.scheduler->check_invariants();
  EXPECT_EQ(copy.scheduler->snapshot(), original.scheduler->snapshot());
  for (uint32_t trial = 0; trial < 60; ++trial)
    EXPECT_EQ(copy.report(trial, 9, trial * 0.02), original.report(trial, 9, trial * 0.02)) << trial;
  const std::string state = copy.scheduler->snapshot();
  for (
      const char* bad :
      {"", "[]", "{}", R"({"version":2,"trials":[]})", R"({"version":1,"trials":[{"id":"zz"}]})",
       R"({"version":1,"trials":[{"id":"00000001","bracket":9,"last_step":1,"decision":0,"complete":false,"recorded":[]}]})"}) {
    EXPECT_FALSE(copy.scheduler->restore(bad).has_value()) << bad;
    EXPECT_EQ(copy.scheduler->snapshot(), state);
  }
}

TEST(AshaScheduler, NamesTheOptionThatIsOutOfRange) {
  const auto message = [](const AshaOptions& options, const std::string& metric = "m") {
    auto made = AshaScheduler::create(options, {.metric = metric});
    return made ? std::string("accepted") : made.error().message;
  };
  EXPECT_THAT(message({.grace_period = 0}), ::testing::HasSubstr("asha.grace_period: expected at least 1 step, got 0"));
  EXPECT_THAT(message({.grace_period = 10, .max_t = 9}),
              ::testing::HasSubstr("asha.max_t: expected at least grace_period (10), got 9"));
  EXPECT_THAT(message({.reduction_factor = 1}),
              ::testing::HasSubstr("asha.reduction_factor: expected a number above 1, got 1"));
  EXPECT_THAT(message({.reduction_factor = kNan}), ::testing::HasSubstr("got nan"));
  EXPECT_THAT(message({.max_t = 1'000'000'000, .reduction_factor = 1.0001}), ::testing::HasSubstr("rungs"));
  EXPECT_THAT(message({.brackets = 0}), ::testing::HasSubstr("asha.brackets"));
  EXPECT_THAT(message({}, ""), ::testing::HasSubstr("set .metric"));
  EXPECT_EQ(message({}), "accepted");
}

TEST(AshaScheduler, RefusesReportsThatCannotBe) {
  AshaExperiment experiment({});
  EXPECT_EQ(experiment.scheduler->on_report({TrialId(1), 1, 0.0}).error().code, ErrorCode::kInvalidArgument);
  experiment.scheduler->on_trial_add(TrialId(1));
  EXPECT_EQ(experiment.scheduler->on_report({TrialId(1), 0, 0.0}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(experiment.scheduler->rung_counts()[0].trials, 0);
}

}  // namespace
}  // namespace volador::tune
