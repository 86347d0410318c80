// Schedules against values recorded from PyTorch (tests/train/data/schedules.json names the expression of each).
#include "train/core/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/result.h"

namespace volador::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using json = nlohmann::json;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kBaseRates[] = {0.1, 0.003};  // The two parameter groups in the recorded values.

json vectors(const char* name) {
  std::ifstream in("tests/train/data/schedules.json");
  return json::parse(in)[name];
}

double number(const json& value) {
  return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
}

// Every schedule in the file of recorded values, with the same options.
std::map<std::string, SchedulePtr> recorded_schedules() {
  using namespace schedules;
  return {
      {"constant", constant({.factor = 0.25, .total_iters = 7})},
      {"constant_defaults", constant()},
      {"linear_up", linear({.start_factor = 0.01, .end_factor = 1, .total_iters = 40})},
      {"linear_down", linear({.start_factor = 1, .end_factor = 0.2, .total_iters = 33})},
      {"step", schedules::step({.step_size = 9, .gamma = 0.3})},
      {"multi_step", multi_step({.milestones = {4, 20, 20, 50}, .gamma = 0.5})},
      {"exponential", exponential({.gamma = 0.93})},
      {"cosine", cosine({.t_max = 20})},
      {"cosine_eta_min", cosine({.t_max = 17, .eta_min = 0.0007})},
      {"warm_restarts", cosine_warm_restarts({.t_0 = 15, .eta_min = 0.0005})},
      {"warm_restarts_t_mult", cosine_warm_restarts({.t_0 = 6, .t_mult = 2})},
      {"warm_restarts_t_mult_3", cosine_warm_restarts({.t_0 = 3, .t_mult = 3, .eta_min = 0.001})},
      {"polynomial", polynomial({.total_iters = 45, .power = 0.9})},
      {"polynomial_square", polynomial({.total_iters = 50, .power = 2})},
      {"one_cycle", one_cycle({.total_steps = 60})},
      {"one_cycle_linear", one_cycle({.max_lr = 0.4,
                                      .total_steps = 64,
                                      .pct_start = 0.45,
                                      .anneal = Anneal::kLinear,
                                      .base_momentum = 0.8,
                                      .max_momentum = 0.9,
                                      .div_factor = 10,
                                      .final_div_factor = 100})},
      {"one_cycle_three_phase", one_cycle({.max_lr = 0.4, .total_steps = 71, .pct_start = 0.37, .three_phase = true})},
      {"one_cycle_no_rise", one_cycle({.total_steps = 60, .pct_start = 0, .cycle_momentum = false})},
      {"cyclic", cyclic({.max_lr = 0.3, .step_size_up = 8, .step_size_down = 13})},
      {"cyclic_triangular2", cyclic({.base_lr = 0.01,
                                     .max_lr = 0.3,
                                     .step_size_up = 7,
                                     .mode = CyclicMode::kTriangular2,
                                     .base_momentum = 0.7,
                                     .max_momentum = 0.95})},
      {"cyclic_exp_range",
       cyclic({.base_lr = 0.01, .max_lr = 0.3, .step_size_up = 10, .mode = CyclicMode::kExpRange, .gamma = 0.97})},
      {"lambda", lambda([](int64_t step) { return 1 / (1 + 0.25 * static_cast<double>(step)); })},
      {"inverse_sqrt", inverse_sqrt({.warmup_steps = 16})},
      {"noam", noam({.model_size = 64, .warmup_steps = 20})},
      {"chained", chained({constant({.factor = 0.1, .total_iters = 20}), exponential({.gamma = 0.9})})},
      {"chained_warm_up_cosine", chained({linear({.start_factor = 0.1, .total_iters = 10}), cosine({.t_max = 60}),
                                          schedules::step({.step_size = 25})})},
      {"sequential", sequential({.schedules = {linear({.start_factor = 0.05, .total_iters = 12}),
                                               cosine({.t_max = 40, .eta_min = 0.0002})},
                                 .milestones = {12}})},
      {"sequential_three",
       sequential({.schedules = {constant({.factor = 0.5, .total_iters = 3}),
                                 cosine_warm_restarts({.t_0 = 9, .t_mult = 2}), exponential({.gamma = 0.8})},
                   .milestones = {10, 40}})},
  };
}

// A user's own schedule that keeps the default momentum.
class Unchanged final : public Schedule {
 public:
  double rate(double base_rate, int64_t) const override { return base_rate; }
};

void expect_close(double actual, double expected, const std::string& where) {
  EXPECT_LE(std::abs(actual - expected), 1e-12 * std::abs(expected)) << where << ": " << actual << " " << expected;
}

void expect_refused(const std::function<void()>& call, const std::string& option, const std::string& value) {
  try {
    call();
    ADD_FAILURE() << option << " = " << value << " was accepted";
  } catch (const Exception& exception) {
    EXPECT_EQ(exception.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(exception.error().message, AllOf(HasSubstr(option + ": expected "), HasSubstr("got " + value)));
  }
}

TEST(Schedule, RateEqualsPyTorchAtEveryStepForEveryGroup) {
  const json recorded = vectors("schedules");
  const auto schedules = recorded_schedules();
  ASSERT_EQ(recorded.size(), schedules.size());
  for (const auto& [name, schedule] : schedules) {
    ASSERT_TRUE(recorded.contains(name)) << name;
    const json& rates = recorded[name]["rates"];
    for (size_t group = 0; group < rates.size(); ++group) {
      ASSERT_GE(rates[group].size(), 60U) << name;
      for (size_t step = 0; step < rates[group].size(); ++step) {
        expect_close(schedule->rate(kBaseRates[group], static_cast<int64_t>(step)), rates[group][step].get<double>(),
                     name + " at step " + std::to_string(step));
      }
    }
  }
}

TEST(Schedule, MomentumEqualsPyTorchWhereItIsCycled) {
  const json recorded = vectors("schedules");
  std::set<std::string> cycled;
  for (const auto& [name, schedule] : recorded_schedules()) {
    if (!recorded[name].contains("momentum")) {
      EXPECT_EQ(schedule->momentum(3), std::nullopt) << name;
      continue;
    }
    cycled.insert(name);
    const json& momentum = recorded[name]["momentum"];
    for (size_t step = 0; step < momentum.size(); ++step) {
      expect_close(schedule->momentum(static_cast<int64_t>(step)).value(), momentum[step].get<double>(),
                   name + " at step " + std::to_string(step));
    }
  }
  EXPECT_EQ(cycled.size(), 6U);
}

TEST(Schedule, RandomAccessEqualsSequentialAccess) {
  const auto sequential = recorded_schedules(), shuffled = recorded_schedules();
  std::mt19937_64 random(7);
  for (const auto& [name, schedule] : sequential) {
    std::vector<int64_t> steps(200);
    std::vector<std::pair<double, std::optional<double>>> expected;
    for (int64_t step = 0; step < 200; ++step) {
      steps[static_cast<size_t>(step)] = step;
      expected.emplace_back(schedule->rate(0.1, step), schedule->momentum(step));
    }
    std::shuffle(steps.begin(), steps.end(), random);
    for (const int64_t step : steps) {
      const auto& [rate, momentum] = expected[static_cast<size_t>(step)];
      EXPECT_EQ(shuffled.at(name)->rate(0.1, step), rate) << name << " at step " << step;
      EXPECT_EQ(shuffled.at(name)->momentum(step), momentum) << name << " at step " << step;
    }
  }
}

TEST(Schedule, RefusesNegativeSteps) {
  for (const auto& [name, schedule] : recorded_schedules()) {
    SCOPED_TRACE(name);
    expect_refused([&] { (void)schedule->rate(0.1, -1); }, "schedule step", "-1");
    if (schedule->momentum(0)) expect_refused([&] { (void)schedule->momentum(-1); }, "schedule step", "-1");
  }
  expect_refused([] { (void)Unchanged().momentum(-2); }, "schedule step", "-2");
}

TEST(Schedule, StaysFiniteAtTheLargestStep) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  auto schedules = recorded_schedules();
  schedules["long_cosine"] = schedules::cosine({.t_max = kLargest});
  schedules["long_cyclic"] = schedules::cyclic({.max_lr = 0.3, .step_size_up = kLargest, .step_size_down = kLargest});
  schedules["fast_restarts"] = schedules::cosine_warm_restarts({.t_0 = 2, .t_mult = kLargest});
  for (const auto& [name, schedule] : schedules) {
    const double rate = schedule->rate(0.1, kLargest);
    EXPECT_TRUE(std::isfinite(rate) && rate >= 0 && rate <= 0.4) << name << " gives " << rate;
  }
}

TEST(CosineSchedule, IsExactlyPeriodic) {
  const SchedulePtr cosine = schedules::cosine({.t_max = 1000, .eta_min = 1e-5});
  for (int64_t step = 0; step <= 2000; ++step) {
    EXPECT_EQ(cosine->rate(0.1, step), cosine->rate(0.1, step + 2'000'000)) << step;
    EXPECT_EQ(cosine->rate(0.1, step), cosine->rate(0.1, 2000 - step)) << step;
  }
  EXPECT_EQ(cosine->rate(0.1, 0), 1e-5 + (0.1 - 1e-5));
  EXPECT_EQ(cosine->rate(0.1, 1000), 1e-5);
}

TEST(OneCycleSchedule, KeepsItsLastRateAfterTheCycle) {
  const SchedulePtr one_cycle = schedules::one_cycle({.max_lr = 1, .total_steps = 50});
  EXPECT_EQ(one_cycle->rate(0.1, 49), 1.0 / 25 / 1e4);
  for (const int64_t step : {50, 51, 5000}) {
    EXPECT_EQ(one_cycle->rate(0.1, step), one_cycle->rate(0.1, 49));
    EXPECT_EQ(one_cycle->momentum(step), one_cycle->momentum(49));
  }
}

TEST(OneCycleSchedule, CountsAPhaseOfLengthZeroAsFinished) {
  const SchedulePtr one = schedules::one_cycle({.max_lr = 1, .total_steps = 1, .pct_start = 1});
  EXPECT_EQ(one->rate(0.1, 0), 1);
  EXPECT_EQ(one->momentum(0), 0.85);
  const SchedulePtr two = schedules::one_cycle({.max_lr = 1, .total_steps = 2, .pct_start = 0.5});
  EXPECT_EQ(two->rate(0.1, 0), 1);
  EXPECT_EQ(two->rate(0.1, 1), 1.0 / 25 / 1e4);
}

TEST(InverseSqrtSchedule, ReachesTheInitialRateAtTheEndOfTheWarmUp) {
  const SchedulePtr schedule = schedules::inverse_sqrt({.warmup_steps = 100});
  EXPECT_EQ(schedule->rate(0.5, 0), 0.005);
  EXPECT_EQ(schedule->rate(0.5, 99), 0.5);
  EXPECT_EQ(schedule->rate(0.5, 399), 0.25);
}

TEST(ChainedSchedule, GivesEachScheduleTheRateOfTheOneBefore) {
  const SchedulePtr warm_up = schedules::linear({.start_factor = 0.5, .total_iters = 10});
  const SchedulePtr floor = schedules::cosine({.t_max = 10, .eta_min = 0.01});
  const SchedulePtr chained = schedules::chained({warm_up, floor});
  EXPECT_EQ(chained->rate(0.1, 5), floor->rate(warm_up->rate(0.1, 5), 5));
  EXPECT_EQ(chained->rate(0.1, 10), 0.01);
}

TEST(ChainedSchedule, TakesMomentumFromTheLastScheduleThatHasOne) {
  const SchedulePtr first = schedules::one_cycle({.total_steps = 10, .max_momentum = 0.9});
  const SchedulePtr second = schedules::one_cycle({.total_steps = 10, .max_momentum = 0.8});
  const auto unchanged = std::make_shared<Unchanged>();
  EXPECT_EQ(schedules::chained({first, second, unchanged})->momentum(0), 0.8);
  EXPECT_EQ(schedules::chained({unchanged, unchanged})->momentum(0), std::nullopt);
}

TEST(SequentialSchedule, TakesMomentumFromTheActiveSchedule) {
  const SchedulePtr one_cycle = schedules::one_cycle({.total_steps = 10});
  const SchedulePtr schedule =
      schedules::sequential({.schedules = {schedules::constant({.factor = 1}), one_cycle}, .milestones = {5}});
  EXPECT_EQ(schedule->momentum(4), std::nullopt);
  EXPECT_EQ(schedule->momentum(5), 0.95);
  EXPECT_EQ(schedule->momentum(9), one_cycle->momentum(4));
}

TEST(SequentialSchedule, SkipsTheFirstScheduleIfTheSecondStartsAtZero) {
  const SchedulePtr schedule = schedules::sequential(
      {.schedules = {schedules::constant(), schedules::exponential({.gamma = 0.5})}, .milestones = {0}});
  EXPECT_EQ(schedule->rate(1, 0), 1);
  EXPECT_EQ(schedule->rate(1, 2), 0.25);
}

TEST(SequentialSchedule, NestsInItself) {
  using namespace schedules;
  const SchedulePtr inner = sequential(
      {.schedules = {constant({.factor = 0.5, .total_iters = 100}), exponential({.gamma = 0.5})}, .milestones = {2}});
  const SchedulePtr outer = sequential({.schedules = {constant({.factor = 1}), inner}, .milestones = {3}});
  std::vector<double> rates;
  for (int64_t step = 0; step < 8; ++step) rates.push_back(outer->rate(1, step));
  EXPECT_EQ(rates, (std::vector<double>{1, 1, 1, 0.5, 0.5, 1, 0.5, 0.25}));
}

TEST(LambdaSchedule, PassesOnTheExceptionOfTheFunction) {
  const SchedulePtr schedule = schedules::lambda([](int64_t) -> double { throw std::runtime_error("no factor"); });
  EXPECT_THROW((void)schedule->rate(0.1, 0), std::runtime_error);
}

TEST(ScheduleOptions, AreRefusedOutOfRangeWithTheirNameAndValue) {
  using namespace schedules;
  expect_refused([] { (void)constant({.factor = 1.5}); }, "schedules::constant: factor", "1.5");
  expect_refused([] { (void)constant({.factor = kNan}); }, "schedules::constant: factor", "nan");
  expect_refused([] { (void)constant({.total_iters = 0}); }, "schedules::constant: total_iters", "0");
  expect_refused([] { (void)linear({.start_factor = 0}); }, "schedules::linear: start_factor", "0");
  expect_refused([] { (void)linear({.start_factor = 1.1}); }, "schedules::linear: start_factor", "1.1");
  expect_refused([] { (void)linear({.end_factor = -0.5}); }, "schedules::linear: end_factor", "-0.5");
  expect_refused([] { (void)linear({.total_iters = -3}); }, "schedules::linear: total_iters", "-3");
  expect_refused([] { (void)schedules::step({}); }, "schedules::step: step_size", "0");
  expect_refused([] { (void)schedules::step({.step_size = 1, .gamma = 0}); }, "schedules::step: gamma", "0");
  expect_refused([] { (void)multi_step({.milestones = {-1}}); }, "schedules::multi_step: milestones[0]", "-1");
  expect_refused([] { (void)multi_step({.milestones = {5, 4}}); }, "schedules::multi_step: milestones[1]", "4");
  expect_refused([] { (void)multi_step({.gamma = kInfinity}); }, "schedules::multi_step: gamma", "inf");
  expect_refused([] { (void)exponential({}); }, "schedules::exponential: gamma", "0");
  expect_refused([] { (void)cosine({}); }, "schedules::cosine: t_max", "0");
  expect_refused([] { (void)cosine({.t_max = 5, .eta_min = -1}); }, "schedules::cosine: eta_min", "-1");
  expect_refused([] { (void)cosine_warm_restarts({}); }, "schedules::cosine_warm_restarts: t_0", "0");
  expect_refused([] { (void)cosine_warm_restarts({.t_0 = 1, .t_mult = 0}); }, "schedules::cosine_warm_restarts: t_mult",
                 "0");
  expect_refused([] { (void)cosine_warm_restarts({.t_0 = 1, .eta_min = kNan}); },
                 "schedules::cosine_warm_restarts: eta_min", "nan");
  expect_refused([] { (void)polynomial({.total_iters = 0}); }, "schedules::polynomial: total_iters", "0");
  expect_refused([] { (void)polynomial({.power = -2}); }, "schedules::polynomial: power", "-2");
  expect_refused([] { (void)inverse_sqrt({}); }, "schedules::inverse_sqrt: warmup_steps", "0");
  expect_refused([] { (void)noam({}); }, "schedules::noam: model_size", "0");
  expect_refused([] { (void)noam({.model_size = 8, .warmup_steps = 0}); }, "schedules::noam: warmup_steps", "0");
  expect_refused([] { (void)lambda(nullptr); }, "schedules::lambda: factor", "an empty function");
}

TEST(OneCycleSchedule, RefusesOptionsOutOfRange) {
  using schedules::one_cycle;
  expect_refused([] { (void)one_cycle({}); }, "schedules::one_cycle: total_steps", "0");
  expect_refused([] { (void)one_cycle({.max_lr = 0, .total_steps = 9}); }, "schedules::one_cycle: max_lr", "0");
  expect_refused([] { (void)one_cycle({.total_steps = 9, .pct_start = 1.5}); }, "schedules::one_cycle: pct_start",
                 "1.5");
  expect_refused([] { (void)one_cycle({.total_steps = 9, .pct_start = 0.6, .three_phase = true}); },
                 "schedules::one_cycle: pct_start", "0.6");
  expect_refused([] { (void)one_cycle({.total_steps = 9, .base_momentum = 1}); }, "schedules::one_cycle: base_momentum",
                 "1");
  expect_refused([] { (void)one_cycle({.total_steps = 9, .max_momentum = -0.25}); },
                 "schedules::one_cycle: max_momentum", "-0.25");
  expect_refused([] { (void)one_cycle({.total_steps = 9, .div_factor = 0}); }, "schedules::one_cycle: div_factor", "0");
  expect_refused([] { (void)one_cycle({.total_steps = 9, .final_div_factor = -1}); },
                 "schedules::one_cycle: final_div_factor", "-1");
}

TEST(CyclicSchedule, RefusesOptionsOutOfRange) {
  using schedules::cyclic;
  expect_refused([] { (void)cyclic({}); }, "schedules::cyclic: max_lr", "0");
  expect_refused([] { (void)cyclic({.base_lr = -1, .max_lr = 1}); }, "schedules::cyclic: base_lr", "-1");
  expect_refused([] { (void)cyclic({.max_lr = 1, .step_size_up = 0}); }, "schedules::cyclic: step_size_up", "0");
  expect_refused([] { (void)cyclic({.max_lr = 1, .step_size_down = 0}); }, "schedules::cyclic: step_size_down", "0");
  expect_refused([] { (void)cyclic({.max_lr = 1, .gamma = 0}); }, "schedules::cyclic: gamma", "0");
  expect_refused([] { (void)cyclic({.max_lr = 1, .base_momentum = 2}); }, "schedules::cyclic: base_momentum", "2");
  expect_refused([] { (void)cyclic({.max_lr = 1, .max_momentum = 1}); }, "schedules::cyclic: max_momentum", "1");
}

TEST(ScheduleCombinations, RefuseMissingSchedulesAndBadMilestones) {
  using namespace schedules;
  const SchedulePtr one = constant();
  expect_refused([] { (void)chained({}); }, "schedules::chained: schedules", "none");
  expect_refused([&] { (void)chained({one, nullptr}); }, "schedules::chained: schedules[1]", "a null pointer");
  expect_refused([] { (void)sequential({}); }, "schedules::sequential: schedules", "none");
  expect_refused([&] { (void)sequential({.schedules = {nullptr}}); }, "schedules::sequential: schedules[0]",
                 "a null pointer");
  expect_refused([&] { (void)sequential({.schedules = {one, one}}); }, "schedules::sequential: milestones", "0");
  expect_refused(
      [&] {
        (void)sequential({.schedules = {one, one, one}, .milestones = {4, 4}});
      },
      "schedules::sequential: milestones[1]", "4");
  expect_refused(
      [&] {
        (void)sequential({.schedules = {one, one}, .milestones = {-4}});
      },
      "schedules::sequential: milestones[0]", "-4");
}

// Options of the recorded runs of ReduceLROnPlateau.
std::map<std::string, PlateauOptions> recorded_plateaus() {
  return {
      {"defaults", {}},
      {"min_rel", {.factor = 0.5, .patience = 2, .threshold = 0.05, .cooldown = 3, .min_lr = 0.0004}},
      {"min_abs",
       {.factor = 0.3, .patience = 0, .threshold = 0.02, .threshold_mode = PlateauThreshold::kAbsolute, .eps = 1e-4}},
      {"max_rel", {.mode = PlateauMode::kMax, .factor = 0.6, .patience = 1, .threshold = 0.01}},
      {"max_abs",
       {.mode = PlateauMode::kMax,
        .factor = 0.6,
        .patience = 3,
        .threshold = 0.1,
        .threshold_mode = PlateauThreshold::kAbsolute,
        .cooldown = 1,
        .min_lr = 0.002}},
      {"first_is_nan", {.factor = 0.5, .patience = 1}},
  };
}

TEST(PlateauSchedule, RatesAndStateEqualPyTorch) {
  const json recorded = vectors("plateau");
  const auto plateaus = recorded_plateaus();
  ASSERT_EQ(recorded.size(), plateaus.size());
  for (const auto& [name, options] : plateaus) {
    const json& run = recorded[name];
    PlateauSchedule plateau(options);
    double current[] = {kBaseRates[0], kBaseRates[1]};
    for (size_t i = 0; i < run["metrics"].size(); ++i) {
      const std::string where = name + " at metric " + std::to_string(i);
      const bool reduces = plateau.step(number(run["metrics"][i]));
      for (size_t group = 0; group < 2; ++group) {
        if (reduces) current[group] = plateau.reduce(current[group]);
        const double expected = run["rates"][group][i].get<double>();
        expect_close(plateau.rate(kBaseRates[group]), expected, where);
        expect_close(current[group], expected, where);
      }
      const json& state = run["states"][i];
      EXPECT_EQ(plateau.state().best, number(state[0])) << where;
      EXPECT_EQ(plateau.state().bad_steps, state[1].get<int64_t>()) << where;
      EXPECT_EQ(plateau.state().cooldown_left, state[2].get<int64_t>()) << where;
    }
    EXPECT_GT(plateau.state().reductions, 1) << name;
  }
}

TEST(PlateauSchedule, ContinuesFromASavedStateAtEveryStep) {
  const json recorded = vectors("plateau");
  for (const auto& [name, options] : recorded_plateaus()) {
    PlateauSchedule whole(options);
    PlateauSchedule::State saved = whole.state();
    for (const json& metric : recorded[name]["metrics"]) {
      PlateauSchedule resumed(options);
      resumed.load(saved);
      EXPECT_EQ(resumed.state(), saved) << name;
      EXPECT_EQ(resumed.step(number(metric)), whole.step(number(metric))) << name;
      EXPECT_EQ(resumed.state(), whole.state()) << name;
      EXPECT_EQ(resumed.rate(0.1), whole.rate(0.1)) << name;
      saved = whole.state();
    }
  }
}

TEST(PlateauSchedule, CountsNanAsBad) {
  PlateauSchedule plateau({.patience = 1});
  EXPECT_FALSE(plateau.step(kNan));
  EXPECT_TRUE(plateau.step(kNan));
  EXPECT_EQ(plateau.state().best, kInfinity);
  EXPECT_FALSE(plateau.step(3));
  EXPECT_EQ(plateau.state().best, 3);
  EXPECT_EQ(plateau.state().reductions, 1);
}

TEST(PlateauSchedule, DoesNotRaiseARateBelowTheLowest) {
  PlateauSchedule plateau({.patience = 0, .min_lr = 0.01});
  plateau.step(1);
  EXPECT_TRUE(plateau.step(1));
  EXPECT_EQ(plateau.rate(0.001), 0.001);
  EXPECT_EQ(plateau.rate(0.05), 0.01);
}

TEST(PlateauSchedule, RefusesOptionsOutOfRange) {
  const auto refused = [](const PlateauOptions& options, const std::string& option, const std::string& value) {
    expect_refused([&] { PlateauSchedule plateau(options); }, "PlateauSchedule: " + option, value);
  };
  refused({.factor = 1}, "factor", "1");
  refused({.factor = 0}, "factor", "0");
  refused({.patience = -1}, "patience", "-1");
  refused({.threshold = -0.5}, "threshold", "-0.5");
  refused({.threshold = 1}, "threshold", "1");
  refused({.cooldown = -1}, "cooldown", "-1");
  refused({.min_lr = kInfinity}, "min_lr", "inf");
  refused({.eps = kNan}, "eps", "nan");
  EXPECT_NO_THROW(PlateauSchedule({.threshold = 2, .threshold_mode = PlateauThreshold::kAbsolute}));
  EXPECT_NO_THROW(PlateauSchedule({.mode = PlateauMode::kMax, .threshold = 2}));
}

TEST(PlateauSchedule, KeepsItsStateIfALoadIsRefused) {
  PlateauSchedule plateau({});
  plateau.step(2);
  const PlateauSchedule::State before = plateau.state();
  expect_refused([&] { plateau.load({.best = kNan}); }, "PlateauSchedule::State: best", "nan");
  expect_refused([&] { plateau.load({.bad_steps = -1}); }, "PlateauSchedule::State: bad_steps", "-1");
  expect_refused([&] { plateau.load({.cooldown_left = -2}); }, "PlateauSchedule::State: cooldown_left", "-2");
  expect_refused([&] { plateau.load({.reductions = -3}); }, "PlateauSchedule::State: reductions", "-3");
  EXPECT_EQ(plateau.state(), before);
}

}  // namespace
}  // namespace volador::train
