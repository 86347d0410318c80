#include "experiments/katib/median_stop.h"

#include <gtest/gtest.h>

namespace volador::experiments::katib {
namespace {

namespace wire = ::api::v1::beta1;

wire::EarlyStoppingSpec stopping(const std::vector<std::pair<std::string, std::string>>& settings) {
  wire::EarlyStoppingSpec spec;
  spec.set_algorithm_name("medianstop");
  for (const auto& [name, value] : settings) {
    auto& one = *spec.add_algorithm_settings();
    one.set_name(name);
    one.set_value(value);
  }
  return spec;
}

std::string stopping_refusal(const wire::EarlyStoppingSpec& spec) {
  const auto settings = median_stop_settings(spec);
  return settings ? "" : settings.error().message;
}

}  // namespace

TEST(MedianStop, SettingsAreChecked) {
  EXPECT_EQ(stopping_refusal(stopping({{"min_trials_required", "1"}, {"start_step", "1"}})), "");
  EXPECT_EQ(stopping_refusal(stopping({{"min_trials_required", "0"}})),
            "min_trials_required must be greater than zero (>0)");
  EXPECT_EQ(stopping_refusal(stopping({{"start_step", "0"}})), "start_step must be greater or equal than one (>=1)");
  EXPECT_EQ(stopping_refusal(stopping({{"patience", "3"}})), "unknown setting patience for algorithm medianstop");
  EXPECT_EQ(stopping_refusal(stopping({{"start_steps", "3"}})),
            "unknown setting start_steps for algorithm medianstop; did you mean start_step?");
  EXPECT_EQ(stopping_refusal(stopping({{"start_step", "two"}})),
            "setting start_step of algorithm medianstop: expected an integer, got \"two\"");
  EXPECT_NE(stopping_refusal(stopping({{"compatibility", "mean"}})), "");
  wire::EarlyStoppingSpec other;
  other.set_algorithm_name("medianstopp");
  EXPECT_NE(stopping_refusal(other).find("did you mean medianstop?"), std::string::npos);
}

TEST(MedianStop, TheLimitIsTheMedianAndTheMeanWhereKatibsIsWanted) {
  const std::vector<std::vector<double>> logs = {{0.1, 0.3}, {0.8, 0.8}, {0.9, 0.9}};  // Averages 0.2, 0.8, 0.9.
  EXPECT_DOUBLE_EQ(*median_stop_limit({.start_step = 2}, logs), 0.8);
  EXPECT_NEAR(*median_stop_limit({.start_step = 2, .mean = true}, logs), 0.6333, 1e-4);
  EXPECT_DOUBLE_EQ(*median_stop_limit({.min_trials_required = 2, .start_step = 2}, {{1, 1}, {2, 4}}), 2);
  // Only the first reports count.
  EXPECT_DOUBLE_EQ(*median_stop_limit({.min_trials_required = 1, .start_step = 2}, {{1, 2, 100}}), 1.5);
  EXPECT_FALSE(median_stop_limit({}, {{1}, {2}}));
  EXPECT_FALSE(median_stop_limit({}, {{1}, {2}, {}}));
}

TEST(MedianStop, OnlyTrialsThatSucceededCount) {
  wire::Experiment experiment;
  auto& spec = *experiment.mutable_spec();
  spec.mutable_objective()->set_type(wire::MAXIMIZE);
  spec.mutable_objective()->set_objective_metric_name("accuracy");
  *spec.mutable_early_stopping() = stopping({{"start_step", "1"}});
  google::protobuf::RepeatedPtrField<wire::Trial> trials;
  ObjectiveLogs logs;
  for (const char* name : {"a", "b", "c", "d"}) {
    auto& trial = *trials.Add();
    trial.set_name(name);
    trial.mutable_status()->set_condition(wire::TrialStatus::SUCCEEDED);
    logs[name] = {0.5};
  }
  logs["d"] = {0.25};
  trials[3].mutable_status()->set_condition(wire::TrialStatus::EARLYSTOPPED);
  auto reply = median_stop_rules(experiment, trials, logs);
  ASSERT_TRUE(reply);
  ASSERT_EQ(reply->early_stopping_rules_size(), 1);
  const auto& rule = reply->early_stopping_rules(0);
  EXPECT_EQ(rule.name(), "accuracy");
  EXPECT_EQ(rule.value(), "0.5");
  EXPECT_EQ(rule.comparison(), wire::LESS);
  EXPECT_EQ(rule.start_step(), 1);
  spec.mutable_objective()->set_type(wire::MINIMIZE);
  EXPECT_EQ(median_stop_rules(experiment, trials, logs)->early_stopping_rules(0).comparison(), wire::GREATER);
  trials[0].mutable_status()->set_condition(wire::TrialStatus::FAILED);
  EXPECT_EQ(median_stop_rules(experiment, trials, logs)->early_stopping_rules_size(), 0);
}

}  // namespace volador::experiments::katib
