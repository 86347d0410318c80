#include "tune/stopper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace volador::tune {
namespace {

using namespace std::chrono_literals;

const std::string kMetric = "loss";

std::optional<std::string> check(const Stop& stop, const Metrics& result, Mode mode = Mode::kMin,
                                 double time_total_s = 0) {
  return stop.check({TrialId(1), static_cast<int64_t>(result.get("training_iteration").value_or(1)), time_total_s,
                     result, kMetric, mode});
}

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
  const auto message = [](const Stop& stop) {
    auto valid = stop.validate();
    return valid ? std::string("accepted") : valid.error().message;
  };
  EXPECT_THAT(message({{"loss", std::nan("")}}), ::testing::HasSubstr("stop.loss: the threshold is nan"));
  EXPECT_THAT(message({{"", 1}}), ::testing::HasSubstr("name of a metric"));
  EXPECT_THAT(message(max_steps(0)), ::testing::HasSubstr("max_steps is 0"));
  EXPECT_THAT(message(max_time(0s)), ::testing::HasSubstr("max_time is 0 s"));
  EXPECT_THAT(message(stop_when(nullptr)), ::testing::HasSubstr("empty function"));
  EXPECT_EQ(message({}), "accepted");
}

}  // namespace
}  // namespace volador::tune
