#include "tune/loop/stopper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "runtime/random.h"

namespace volador::tune {
namespace {

using namespace std::chrono_literals;

const std::string kMetric = "loss";

using ::testing::HasSubstr;

std::optional<std::string> check(const Stop& stop, const Metrics& result, Mode mode = Mode::kMin,
                                 double time_total_s = 0) {
  Stopper stopper(stop, kMetric, mode);
  const auto step = static_cast<int64_t>(result.get("training_iteration").value_or(1));
  const auto outcome = stopper.check({TrialId(1), step, time_total_s, result});
  return outcome ? std::optional(outcome->reason) : std::nullopt;
}

// A stopper, and trials that count their steps. Outcomes are ".", "F", "S" or "X" per result.
struct Watched {
  Stopper stopper;
  std::map<uint32_t, int64_t> steps = {};

  explicit Watched(const Stop& stop, Mode mode = Mode::kMin) : stopper(stop, kMetric, mode) {}
  std::string reports(uint32_t trial, std::initializer_list<double> values) {
    std::string said;
    for (const double value : values) {
      const Metrics result{{"loss", value}};
      const auto outcome = stopper.check({TrialId(trial), ++steps[trial], 0, result});
      said += outcome ? "FSX"[static_cast<int>(outcome->end)] : '.';
    }
    return said;
  }
};

TEST(Stop, ReachesThresholdsFromBelow) {
  const Stop stop = {{"accuracy", 0.995}, {"training_iteration", 100}};
  EXPECT_EQ(check(stop, {{"accuracy", 0.99}, {"training_iteration", 99}}), std::nullopt);
  EXPECT_EQ(check(stop, {{"accuracy", 0.996}}), "accuracy 0.996 reached 0.995");
  EXPECT_EQ(check(stop, {{"accuracy", 0.1}, {"training_iteration", 100}}), "training_iteration 100 reached 100");
  EXPECT_EQ(check(stop, {{"other", 1}}), std::nullopt);
}

TEST(Stop, ReachesAMinimisedMetricFromAbove) {
  const Stop stop = {{"loss", 0.1}};
  EXPECT_EQ(check(stop, {{"loss", 0.5}}), std::nullopt);
  EXPECT_EQ(check(stop, {{"loss", 0.1}}), "loss 0.1 reached 0.1");
  EXPECT_EQ(check(stop, {{"loss", 0.05}}, Mode::kMax), std::nullopt);
  EXPECT_NE(check(stop, {{"loss", 0.5}}, Mode::kMax), std::nullopt);
}

TEST(Stop, NanReachesNothing) {
  EXPECT_EQ(check({{"loss", 0.1}}, {{"loss", std::nan("")}}), std::nullopt);
  EXPECT_EQ(check(at_least("loss", -HUGE_VAL), {{"loss", std::nan("")}}), std::nullopt);
}

TEST(Stop, EndsByAnyOfItsConditions) {
  const Stop stop = any_of({at_most("error", 0.01), at_least("gain", 3), max_steps(10), max_time(10min),
                            stop_when([](TrialId id, const Metrics& result) {
                              return id == TrialId(1) && result.get("gap").value_or(1) < 0;
                            })});
  EXPECT_EQ(stop.conditions().size(), 5u);
  EXPECT_EQ(check(stop, {{"error", 0.5}, {"gain", 1}, {"training_iteration", 9}}, Mode::kMin, 599), std::nullopt);
  EXPECT_EQ(check(stop, {{"error", 0.01}}), "error 0.01 reached 0.01");
  EXPECT_EQ(check(stop, {{"gain", 3}}), "gain 3 reached 3");
  EXPECT_EQ(check(stop, {{"training_iteration", 10}}), "10 steps done");
  EXPECT_EQ(check(stop, {{"x", 1}}, Mode::kMin, 600), "it ran for 600 s");
  EXPECT_EQ(check(stop, {{"gap", -1}}), "the stop function said so");
}

TEST(Stop, RefusesWhatNeverStops) {
  const auto message = [](const Stop& stop, std::string_view metric = "loss") {
    auto valid = stop.validate(metric);
    return valid ? std::string("accepted") : valid.error().message;
  };
  EXPECT_THAT(message({{"loss", std::nan("")}}), ::testing::HasSubstr("stop.loss: the threshold is nan"));
  EXPECT_THAT(message({{"", 1}}), ::testing::HasSubstr("name of a metric"));
  EXPECT_THAT(message(max_steps(0)), ::testing::HasSubstr("max_steps is 0"));
  EXPECT_THAT(message(max_time(0s)), ::testing::HasSubstr("max_time is 0 s"));
  EXPECT_THAT(message(stop_when(nullptr)), ::testing::HasSubstr("empty function"));
  EXPECT_EQ(message({}), "accepted");
  EXPECT_THAT(message(timeout(-1s)), HasSubstr("timeout is -1 s, expected more than 0"));
  EXPECT_THAT(message(stop_all_when(nullptr)), HasSubstr("stop_all_when got an empty function"));
  EXPECT_THAT(message(trial_plateau(), ""), HasSubstr("stop.trial_plateau.metric: name the metric"));
  EXPECT_THAT(message(stop_on_nan(), ""), HasSubstr("stop.stop_on_nan.metric: name the metric"));
  EXPECT_EQ(message(trial_plateau({.metric = "m"}), ""), "accepted");
  EXPECT_THAT(message(trial_plateau({.std = 0})),
              HasSubstr("stop.trial_plateau.std: expected a number above 0, got 0"));
  EXPECT_THAT(message(trial_plateau({.std = std::nan("")})), HasSubstr("got nan"));
  EXPECT_THAT(message(trial_plateau({.num_results = 1})),
              HasSubstr("stop.trial_plateau.num_results: expected 2 to 1000000, got 1"));
  EXPECT_THAT(message(trial_plateau({.grace_period = 0})), HasSubstr("stop.trial_plateau.grace_period"));
  EXPECT_THAT(message(trial_plateau({.metric_threshold = std::nan("")})), HasSubstr("metric_threshold"));
  EXPECT_THAT(message(experiment_plateau({.std = -1})),
              HasSubstr("stop.experiment_plateau.std: expected a number of at least 0, got -1"));
  EXPECT_THAT(message(experiment_plateau({.top = 1})), HasSubstr("stop.experiment_plateau.top: expected 2"));
  EXPECT_THAT(message(experiment_plateau({.patience = -1})), HasSubstr("stop.experiment_plateau.patience"));
  EXPECT_THAT(message(stop_on_nan({.tolerated = -1})),
              HasSubstr("stop.stop_on_nan.tolerated: expected 0 to 1000000, got -1"));
}

TEST(Stop, TakesTheShortestTimeout) {
  EXPECT_EQ(Stop().timeout(), std::nullopt);
  EXPECT_EQ(any_of({timeout(20s), max_time(1s), timeout(10s)}).timeout(), 10s);
}

TEST(TrialPlateau, EndsATrialWhoseLastResultsAreClose) {
  Watched watched(trial_plateau({.std = 0.01, .num_results = 4, .grace_period = 4}));
  EXPECT_EQ(watched.reports(1, {1, 1, 1}), "...");  // In the grace period.
  EXPECT_EQ(watched.reports(2, {1, 0.5, 0.4, 0.395, 0.392, 0.39}), ".....F");
  EXPECT_EQ(watched.reports(1, {1}), "F");  // Per trial.
  Watched edge(trial_plateau({.std = 0.25, .num_results = 2, .grace_period = 1}));
  EXPECT_EQ(edge.reports(1, {0.5}), "F");        // One result has deviation 0.
  EXPECT_EQ(edge.reports(2, {0.5, 1.0}), "F.");  // A deviation of 0.25 is not below the threshold.
}

TEST(TrialPlateau, WaitsForAResultAsGoodAsTheThreshold) {
  const TrialPlateauOptions options{.std = 0.1, .num_results = 2, .grace_period = 2, .metric_threshold = 0.5};
  EXPECT_EQ(Watched(trial_plateau(options)).reports(1, {0.6, 0.6, 0.51, 0.5, 0.49}), "...FF");
  EXPECT_EQ(Watched(trial_plateau(options), Mode::kMax).reports(1, {0.4, 0.4, 0.5}), "..F");
  TrialPlateauOptions other = options;
  other.mode = Mode::kMax;
  EXPECT_EQ(Watched(trial_plateau(other)).reports(1, {0.4, 0.4, 0.5}), "..F");
}

TEST(TrialPlateau, SeesNoPlateauInNanAndInfinities) {
  Watched watched(trial_plateau({.std = 0.1, .num_results = 2, .grace_period = 1}));
  EXPECT_EQ(watched.reports(1, {std::nan(""), std::nan(""), HUGE_VAL, HUGE_VAL, 1, 1}), ".....F");
}

TEST(ExperimentPlateau, EndsAllWhenTheBestOfAllTrialsAreClose) {
  Watched watched(experiment_plateau({.std = 0.001, .top = 3}));
  EXPECT_EQ(watched.reports(1, {0.5, 0.4}), "..");
  EXPECT_EQ(watched.reports(2, {0.4, 0.9}), "..");  // 0.4, 0.4, 0.5.
  EXPECT_EQ(watched.reports(1, {std::nan(""), 0.4}), ".X");
  Watched most(experiment_plateau({.std = 0, .top = 2, .mode = Mode::kMax}));
  EXPECT_EQ(most.reports(1, {1, 2, 3, 3}), "...X");
}

TEST(ExperimentPlateau, IsPatient) {
  Watched watched(experiment_plateau({.std = 0.001, .top = 2, .patience = 3}));
  EXPECT_EQ(watched.reports(1, {0.5, 0.5, 0.5, 0.1, 0.5, 0.1, 0.1, 0.1}), ".......X");
}

TEST(StopOnNan, EndsADivergedTrialAsStopped) {
  Watched watched(stop_on_nan());
  EXPECT_EQ(watched.reports(1, {1, std::nan("")}), ".S");
  EXPECT_EQ(watched.reports(2, {-HUGE_VAL}), "S");
  EXPECT_EQ(Watched(stop_on_nan({.infinities = false})).reports(1, {HUGE_VAL, std::nan("")}), ".S");
  Watched tolerant(stop_on_nan({.tolerated = 2}));
  EXPECT_EQ(tolerant.reports(1, {std::nan(""), std::nan(""), 1, std::nan(""), std::nan(""), std::nan("")}), ".....S");
  Stopper stopper(stop_on_nan(), kMetric, Mode::kMin);
  const Metrics result{{"loss", std::nan("")}};
  EXPECT_EQ(stopper.check({TrialId(1), 7, 0, result}), (Stopper::Outcome{Stopper::End::kStop, "loss nan at step 7"}));
}

TEST(Stopper, CountsARepeatedStepOnceAndThresholdsAgain) {
  Stopper stopper(any_of({trial_plateau({.std = 0.1, .num_results = 3, .grace_period = 3}), at_most("loss", 0.1)}),
                  kMetric, Mode::kMin);
  for (const int64_t step : {1, 2, 2, 1, 2}) {
    const Metrics result{{"loss", 0.5}};
    EXPECT_EQ(stopper.check({TrialId(1), step, 0, result}), std::nullopt);
  }
  const Metrics low{{"loss", 0.1}};
  EXPECT_NE(stopper.check({TrialId(1), 2, 0, low}), std::nullopt);
}

TEST(Stopper, EndsTheExperimentWhereOneConditionEndsTheTrialOnly) {
  Stopper stopper(any_of({max_steps(1), stop_all_when([](TrialId, const Metrics&) { return true; })}), kMetric,
                  Mode::kMin);
  EXPECT_EQ(stopper.check({TrialId(1), 1, 0, {}})->end, Stopper::End::kExperiment);
}

TEST(Stopper, GoesOnTheSameFromASnapshotTakenAfterAnyResult) {
  const Stop stop = any_of({trial_plateau({.std = 0.05, .num_results = 3, .grace_period = 4}),
                            experiment_plateau({.std = 0.01, .top = 4, .patience = 2}), stop_on_nan({.tolerated = 1})});
  SeededRandom random(3);
  std::vector<std::pair<uint32_t, double>> told;
  for (int i = 0; i < 80; ++i)
    told.emplace_back(random.below(4), random.below(5) == 0 ? std::nan("") : random.real() * 0.2);
  for (size_t cut = 0; cut < told.size(); ++cut) {
    Watched original(stop);
    for (size_t i = 0; i < cut; ++i) original.reports(told[i].first, {told[i].second});
    original.stopper.on_complete(TrialId(2));
    Watched copy(stop);
    copy.steps = original.steps;
    ASSERT_TRUE(copy.stopper.restore(original.stopper.snapshot()).has_value());
    for (size_t i = cut; i < told.size(); ++i)
      ASSERT_EQ(copy.reports(told[i].first, {told[i].second}), original.reports(told[i].first, {told[i].second}));
    ASSERT_EQ(copy.stopper.snapshot(), original.stopper.snapshot());
  }
}

TEST(Stopper, RefusesATornSnapshotAndForgetsEndedTrials) {
  Watched watched(any_of({trial_plateau(), experiment_plateau(), stop_on_nan()}));
  watched.reports(1, {0.5, 0.25});
  const std::string whole = watched.stopper.snapshot();
  for (size_t length = 0; length < whole.size(); ++length)
    ASSERT_FALSE(watched.stopper.restore(whole.substr(0, length)).has_value());
  EXPECT_FALSE(Watched(Stop()).stopper.restore(whole).has_value());
  EXPECT_EQ(watched.stopper.snapshot(), whole);
  watched.stopper.on_complete(TrialId(1));
  EXPECT_EQ(watched.stopper.snapshot().find("00000001"), std::string::npos);
}

}  // namespace
}  // namespace volador::tune
