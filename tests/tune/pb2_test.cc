#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tune/schedulers/pb2_model.h"
#include "tune/schedulers/pbt_scheduler.h"
#include "tune/simulation/simulation.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

Pb2Change change(double time, double x, double gain) { return {time, 0, {x}, gain}; }

TEST(Pb2Model, GoesWhereGainsWereHigh) {
  std::vector<Pb2Change> changes;
  for (int i = 0; i < 12; ++i) {
    const double x = i / 11.0;
    changes.push_back(change(3, x, 1 - 4 * (x - 0.7) * (x - 0.7)));
  }
  double sum = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SeededRandom random(seed);
    sum += pb2_suggest(changes, {}, 4, 0, 1, random)[0] / 10;
  }
  EXPECT_NEAR(sum, 0.7, 0.15);
}

TEST(Pb2Model, OldChangesSayLess) {
  // Low values were good long ago; high ones are now.
  std::vector<Pb2Change> changes;
  for (int time = 1; time <= 40; ++time) {
    for (const double x : {0.1, 0.5, 0.9}) changes.push_back(change(time, x, time < 20 ? 1 - x : x));
  }
  SeededRandom random(2);
  EXPECT_GT(pb2_suggest(changes, {}, 41, 0, 1, random)[0], 0.5);
}

TEST(Pb2Model, KeepsAwayFromWhatRunsNow) {
  const std::vector<Pb2Change> changes{change(1, 0.2, 1), change(1, 0.8, 1), change(1, 0.5, 0)};
  SeededRandom first(3), second(3);
  const double alone = pb2_suggest(changes, {}, 2, 0, 1, first)[0];
  const double beside = pb2_suggest(changes, {{alone}, {alone}, {alone}}, 2, 0, 1, second)[0];
  EXPECT_GT(std::abs(alone - beside), 0.05);
}

TEST(Pb2Model, IsRandomWhereLittleIsKnownAndTheSameForTheSameSeed) {
  SeededRandom a(4), b(4);
  const Point one = pb2_suggest({change(1, 0.5, 1)}, {}, 2, 0, 3, a);
  EXPECT_EQ(one.size(), 3U);
  EXPECT_EQ(one, pb2_suggest({change(1, 0.5, 1)}, {}, 2, 0, 3, b));
  const std::vector<Pb2Change> equal(5, change(1, 0.5, 1));
  for (const double x : pb2_suggest(equal, {{0.5}}, 2, 1e300, 1, a)) EXPECT_TRUE(x >= 0 && x < 1);
}

TEST(Pb2, CopiesStayWithinTheirBounds) {
  const auto scheduler = pb2({.perturbation_interval = 2,
                              .hyperparam_bounds = {{"lr", loguniform(1e-4, 1e-1)}, {"width", randint(8, 65)}}})(
                             {.metric = "m", .mode = Mode::kMax, .seed = 3})
                             .value();
  EXPECT_THAT(scheduler->describe(), HasSubstr("PB2 interval 2"));
  constexpr uint32_t kTrials = 8;
  std::vector<Config> configs(kTrials);
  std::vector<int64_t> steps(kTrials, 0);
  std::vector<double> scores(kTrials, 0);
  SeededRandom random(5);
  for (uint32_t i = 0; i < kTrials; ++i) {
    configs[i] = {{"lr", 1e-4 * std::pow(1000, random.real())},
                  {"width", 8 + static_cast<int64_t>(random.below(57))},
                  {"depth", 3}};
    scheduler->on_trial_config(TrialId(i), configs[i]);
    scheduler->on_trial_add(TrialId(i));
  }
  int copies = 0;
  double late = 0;
  for (int round = 0; round < 30; ++round) {
    for (uint32_t i = 0; i < kTrials; ++i) {
      // A step gains most at 1e-2.
      scores[i] += 1 - std::abs(std::log10(configs[i].real("lr")) + 2);
      ++steps[i];
      const Decision decision = scheduler->on_report({TrialId(i), steps[i], scores[i]}).value();
      scheduler->on_checkpoint(TrialId(i), steps[i]);
      for (const Order& order : scheduler->take_orders()) {
        const auto* clone = std::get_if<CloneOrder>(&order);
        ASSERT_NE(clone, nullptr);
        EXPECT_EQ(decision, Decision::kClone);
        EXPECT_GE(clone->config.real("lr"), 1e-4);
        EXPECT_LT(clone->config.real("lr"), 1e-1);
        EXPECT_GE(clone->config.integer("width"), 8);
        EXPECT_LT(clone->config.integer("width"), 65);
        EXPECT_EQ(clone->config.integer("depth"), 3);
        configs[i] = clone->config;
        scores[i] = scores[clone->from.value()];
        steps[i] = steps[clone->from.value()];
        scheduler->on_cloned(*clone, steps[i]);
        ++copies;
        if (round >= 15) late = std::max(late, 1 - std::abs(std::log10(configs[i].real("lr")) + 2));
      }
      scheduler->check_invariants();
    }
  }
  EXPECT_GT(copies, 8);
  EXPECT_GT(late, 0.7);
}

TEST(Pb2, RefusesWhatIsNoNumber) {
  const SchedulerContext metric{.metric = "m"};
  EXPECT_THAT(pb2({})(metric).error().message, HasSubstr("pb2.hyperparam_bounds: expected domains of numbers"));
  EXPECT_THAT(pb2({.hyperparam_bounds = {{"kind", choice({"a", "b"})}}})(metric).error().message,
              HasSubstr("pb2.hyperparam_bounds.kind: expected numbers"));
  EXPECT_THAT(pb2({.perturbation_interval = 0, .hyperparam_bounds = {{"x", uniform(0, 1)}}})(metric).error().message,
              HasSubstr("perturbation_interval"));
}

}  // namespace
}  // namespace volador::tune
