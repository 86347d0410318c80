// What a trial collects, its observation, and the rules by which it stops early.
#include "experiments/katib/collection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/katib/observation.h"
#include "experiments/katib/stopping_rules.h"

namespace volador::experiments::katib {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Collection full() {
  Collection collection;
  collection.trial = "random-5s59vfwc";
  collection.objective = {.maximize = true,
                          .goal = 0.99,
                          .metric = "Validation-accuracy",
                          .additional_metrics = {"Train-accuracy", "a\"b"},
                          .strategies = {{"Validation-accuracy", MetricStrategy::kMax},
                                         {"Train-accuracy", MetricStrategy::kLatest},
                                         {"a\"b", MetricStrategy::kMin}}};
  collection.collector = {.kind = CollectorKind::kFile,
                          .path = "/var/log/katib/metrics.log",
                          .is_json = true,
                          .formats = {R"(([\w|-]+)=(.*))"},
                          .port = 9090,
                          .command = {"bash", "-c", "echo \"$0\""}};
  collection.rules = {{"Validation-accuracy", 0.6333, Comparison::kLess, 4}, {"loss", NAN, Comparison::kGreater, 0}};
  collection.reads_numbers = false;
  collection.checkpoints = "/opt/katib/data";
  collection.parent = 7;
  return collection;
}

TEST(Collection, IsReadAsItWasWritten) {
  for (const CollectorKind kind :
       {CollectorKind::kStdOut, CollectorKind::kFile, CollectorKind::kTensorFlowEvent, CollectorKind::kPrometheus,
        CollectorKind::kCustom, CollectorKind::kPush, CollectorKind::kNone}) {
    Collection given = full();
    given.collector.kind = kind;
    const auto read = collection_from(to_json(given));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(to_json(*read), to_json(given));
    EXPECT_EQ(read->collector.kind, kind);
    EXPECT_EQ(read->objective.strategies, given.objective.strategies);
    EXPECT_EQ(read->collector.formats, given.collector.formats);
    EXPECT_EQ(read->checkpoints, given.checkpoints);
    EXPECT_EQ(read->parent, 7);
    EXPECT_EQ(read->rules[0].value, 0.6333);
    EXPECT_EQ(read->rules[1].comparison, Comparison::kGreater);
    EXPECT_TRUE(std::isnan(read->rules[1].value));
  }
  const auto plain = collection_from(to_json(Collection{
      .trial = "t",
      .objective = {.maximize = false, .goal = {}, .metric = "loss", .additional_metrics = {}, .strategies = {}},
      .collector = {},
      .rules = {},
      .reads_numbers = true}));
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_FALSE(plain->objective.goal);
}

TEST(Collection, NamesWhatIsWrong) {
  const auto error_of = [](std::string_view json) {
    const auto read = collection_from(json);
    return read ? "" : read.error().message;
  };
  EXPECT_THAT(error_of("[]"), HasSubstr("expected a JSON object"));
  EXPECT_THAT(error_of("{"), HasSubstr("expected a JSON object"));
  EXPECT_THAT(error_of("{}"), HasSubstr("collection: trial: expected a value, and there is none"));
  std::string json = to_json(full());
  const auto with = [&](const std::string& old, const std::string& now) {
    std::string changed = json;
    changed.replace(changed.find(old), old.size(), now);
    return changed;
  };
  EXPECT_THAT(error_of(with("\"File\"", "\"Files\"")),
              HasSubstr("collector.kind: expected a name that is known, got \"Files\""));
  EXPECT_THAT(error_of(with("9090", "\"9090\"")), HasSubstr("collector.port: expected an integer"));
  EXPECT_THAT(error_of(with("\"less\"", "\"below\"")), HasSubstr("rules: comparison: expected a name"));
  EXPECT_THAT(error_of(with("\"latest\"", "1")), HasSubstr("objective.strategies.Train-accuracy: expected a text"));
}

Objective objective(bool maximize, MetricStrategy strategy = MetricStrategy::kLatest) {
  return {.maximize = maximize,
          .goal = {},
          .metric = "acc",
          .additional_metrics = {"loss"},
          .strategies = {{"acc", strategy}}};
}

TEST(Observation, HasTheLeastTheGreatestAndTheLatestValue) {
  Observation observation(objective(true, MetricStrategy::kMax));
  EXPECT_EQ(observation.objective(), std::nullopt);
  EXPECT_EQ(observation.metrics()[0], (ObservedMetric{"acc", "unavailable", "unavailable", "unavailable"}));
  for (const char* value : {"0.955713", "0.979001", "9.6e-1"}) observation.add({"acc", value, {}});
  observation.add({"other", "5", {}});
  observation.add({"loss", "", {}});
  observation.add({"loss", "high", {}});
  EXPECT_THAT(observation.metrics(),
              ElementsAre(ObservedMetric{"acc", "0.955713", "0.979001", "9.6e-1"}, ObservedMetric{"loss"}));
  EXPECT_EQ(observation.objective(), 0.979001);
}

TEST(Observation, TheLatestIsThatOfTheLatestTime) {
  Observation observation(objective(true));
  observation.add({"acc", "1", 20});
  observation.add({"acc", "2", 10});
  observation.add({"acc", "3", {}});
  EXPECT_EQ(observation.metrics()[0].latest, "1");
  observation.add({"acc", "4", 20});
  EXPECT_EQ(observation.metrics()[0].latest, "4");
  EXPECT_EQ(observation.metrics()[0].max, "4");
}

TEST(Observation, NanIsNoExtremeBesideNumbers) {
  Observation observation(objective(false, MetricStrategy::kMin));
  observation.add({"acc", "nan", {}});
  EXPECT_EQ(observation.metrics()[0], (ObservedMetric{"acc", "nan", "nan", "nan"}));
  EXPECT_TRUE(std::isnan(observation.objective().value_or(0)));
  observation.add({"acc", "0.5", {}});
  observation.add({"acc", "nan", {}});
  EXPECT_EQ(observation.metrics()[0], (ObservedMetric{"acc", "0.5", "0.5", "nan"}));
  EXPECT_EQ(observation.objective(), 0.5);
}

bool stops(StoppingRules& rules, const char* metric, const char* value) { return rules.on_report({metric, value, {}}); }

TEST(StoppingRules, CompareTheBestObjectiveFromAStepOn) {
  StoppingRules rules(objective(true), {{"acc", 0.8, Comparison::kLess, 3}});
  EXPECT_FALSE(stops(rules, "acc", "0.1"));
  EXPECT_FALSE(stops(rules, "loss", "0.1"));
  EXPECT_FALSE(stops(rules, "acc", "0.85"));
  EXPECT_FALSE(stops(rules, "acc", "0.2")) << "0.85 is the best so far";
  EXPECT_FALSE(stops(rules, "acc", "nan"));
  StoppingRules later(objective(true), {{"acc", 0.8, Comparison::kLess, 3}});
  EXPECT_FALSE(stops(later, "acc", "0.1"));
  EXPECT_FALSE(stops(later, "acc", "0.2"));
  EXPECT_TRUE(stops(later, "acc", "0.3"));
}

TEST(StoppingRules, MinimizeComparesTheLeast) {
  StoppingRules rules(objective(false), {{"acc", 1, Comparison::kGreater, 2}});
  EXPECT_FALSE(stops(rules, "acc", "5"));
  EXPECT_TRUE(stops(rules, "acc", "4"));
  StoppingRules better(objective(false), {{"acc", 1, Comparison::kGreater, 0}});
  EXPECT_FALSE(stops(better, "acc", "0.5"));
  EXPECT_FALSE(stops(better, "acc", "4"));
}

TEST(StoppingRules, AllOfThemMustBeMet) {
  StoppingRules rules(objective(true), {{"acc", 0.5, Comparison::kLess, 0}, {"loss", 2, Comparison::kEqual, 2}});
  EXPECT_FALSE(stops(rules, "acc", "0.4"));
  EXPECT_FALSE(stops(rules, "loss", "2")) << "the first report of two";
  EXPECT_FALSE(stops(rules, "loss", "3"));
  EXPECT_TRUE(stops(rules, "loss", "2"));
  StoppingRules none(objective(true), {});
  EXPECT_FALSE(stops(none, "acc", "0"));
}

}  // namespace
}  // namespace volador::experiments::katib
