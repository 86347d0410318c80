// Optuna's pruners as schedulers, on streams with decisions recorded from Optuna 5.0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/tune/odd_values.h"
#include "tune/schedulers/percentile_scheduler.h"
#include "tune/schedulers/wilcoxon.h"
#include "tune/schedulers/wilcoxon_scheduler.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;
using json = nlohmann::json;

json vectors(const char* name) {
  std::ifstream in("tests/tune/data/pruner_vectors.json");
  return json::parse(in)[name];
}

// Runs trials sequentially; each ends when it is stopped, or after its last event.
void expect_decisions(Scheduler& scheduler, const json& stream) {
  const json& events = stream["events"];
  for (size_t i = 0; i < events.size(); ++i) {
    const json& event = events[i];
    const TrialId trial(event[0].get<uint32_t>());
    scheduler.on_trial_add(trial);
    const double value = event[2].is_string() ? kNan : event[2].get<double>();
    const Decision decision = scheduler.on_report({trial, event[1], value}).value();
    EXPECT_EQ(decision == Decision::kStop, event[3].get<bool>())
        << "event " << i << " of " << stream["mode"] << " " << event.dump();
    if (i + 1 == events.size() || events[i + 1][0] != event[0]) scheduler.on_complete(trial);
    scheduler.check_invariants();
  }
}

SchedulerContext context(const json& stream) {
  return {.metric = "m", .mode = stream["mode"] == "max" ? Mode::kMax : Mode::kMin};
}

TEST(Wilcoxon, GivesScipysNumbers) {
  size_t checked = 0;
  for (const json& one : vectors("wilcoxon_greater")) {
    EXPECT_NEAR(wilcoxon_greater(one[0]), one[1].get<double>(), 1e-12) << one[0].dump();
    ++checked;
  }
  EXPECT_GT(checked, 30U);
  EXPECT_EQ(wilcoxon_greater({}), 1);
}

TEST(PercentilePruner, DecidesAsOptunaDoes) {
  for (const json& stream : vectors("percentile")) {
    const PercentileOptions options{.percentile = stream["percentile"],
                                    .n_startup_trials = stream["n_startup_trials"],
                                    .n_warmup_steps = stream["n_warmup_steps"],
                                    .interval_steps = stream["interval_steps"],
                                    .n_min_trials = stream["n_min_trials"]};
    expect_decisions(*percentile_pruner(options)(context(stream)).value(), stream);
  }
}

TEST(WilcoxonPruner, DecidesAsOptunaDoes) {
  for (const json& stream : vectors("wilcoxon"))
    expect_decisions(*wilcoxon_pruner({.p_threshold = stream["p_threshold"],
                                       .n_startup_steps = stream["n_startup_steps"]})(context(stream))
                          .value(),
                     stream);
}

TEST(PercentilePruner, SaysWhy) {
  const auto scheduler =
      percentile_pruner({.percentile = 50, .n_startup_trials = 2})({.metric = "m", .mode = Mode::kMin}).value();
  for (uint32_t i = 0; i < 3; ++i) {
    scheduler->on_trial_add(TrialId(i));
    (void)scheduler->on_report({TrialId(i), 1, static_cast<double>(i)});
    if (i < 2) scheduler->on_complete(TrialId(i));
  }
  const auto decisions = scheduler->take_decisions();
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_EQ(decisions[0].act, Act::kStopped);
  EXPECT_EQ(decisions[0].cutoff, 0.5);
  EXPECT_THAT(to_text(decisions[0]), HasSubstr("percentile 50 of 2 completed trials there is 0.5"));
}

TEST(WilcoxonPruner, SaysWhy) {
  const auto scheduler = wilcoxon_pruner()({.metric = "m", .mode = Mode::kMin}).value();
  Decision decision = Decision::kContinue;
  for (uint32_t i = 0; i < 2; ++i) {
    scheduler->on_trial_add(TrialId(i));
    for (int64_t step = 1; step <= 6; ++step)
      decision =
          scheduler->on_report({TrialId(i), step, i + 0.01 * static_cast<double>(step * step * (i + 1))}).value();
    if (i == 0) scheduler->on_complete(TrialId(0));
  }
  EXPECT_EQ(decision, Decision::kStop);
  const auto decisions = scheduler->take_decisions();
  ASSERT_FALSE(decisions.empty());
  EXPECT_EQ(decisions.back().other, TrialId(0));
  EXPECT_THAT(to_text(decisions.back()), HasSubstr("p 0.0625 that it is no worse than trial 00000000 on 4 instances"));
}

TEST(Pruners, RefuseOptionsOutOfRange) {
  const SchedulerContext metric{.metric = "m"};
  const auto percentile = [&](const PercentileOptions& options) {
    return percentile_pruner(options)(metric).error().message;
  };
  EXPECT_THAT(percentile({.percentile = 101}), HasSubstr("percentile_pruner.percentile: expected 0 to 100, got 101"));
  EXPECT_THAT(percentile({.n_startup_trials = -1}), HasSubstr("n_startup_trials"));
  EXPECT_THAT(percentile({.n_warmup_steps = -1}), HasSubstr("n_warmup_steps"));
  EXPECT_THAT(percentile({.interval_steps = 0}), HasSubstr("interval_steps"));
  EXPECT_THAT(percentile({.n_min_trials = 0}), HasSubstr("n_min_trials"));
  EXPECT_THAT(wilcoxon_pruner({.p_threshold = 1.5})(metric).error().message, HasSubstr("wilcoxon_pruner.p_threshold"));
  EXPECT_THAT(wilcoxon_pruner()({}).error().message, HasSubstr("set .metric"));
}

}  // namespace
}  // namespace volador::tune
