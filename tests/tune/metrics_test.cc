#include "tune/loop/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "runtime/serialize/codec.h"
#include "tests/tune/odd_values.h"
#include "tune/loop/trial.h"

namespace volador::tune {
namespace {

Metrics step(float accuracy, int64_t seen) { return {{"accuracy", accuracy}, {"seen", seen}}; }

TEST(Metrics, AreWrittenAsAStepReturnsThem) {
  const Metrics metrics = step(0.5f, 100);
  EXPECT_EQ(metrics.at("accuracy"), 0.5);
  EXPECT_EQ(metrics.at("seen"), 100);
  EXPECT_EQ(metrics.get("loss"), std::nullopt);
  EXPECT_EQ(metrics.to_json(), R"({"accuracy":0.5,"seen":100.0})");
  const Metrics one = {{"accuracy", 0.25}};
  EXPECT_EQ(one.size(), 1u);
}

TEST(Metrics, NameWhatThereIs) {
  try {
    (void)step(1, 2).at("loss");
    FAIL();
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_EQ(error.error().message, "metrics: there is no \"loss\"; there are: accuracy, seen");
  }
}

TEST(Metrics, ComeBackFromJsonAndCalls) {
  const Metrics metrics = {{"b", 0.1}, {"a", kNan}, {"c", -HUGE_VAL}};
  EXPECT_EQ(Metrics::from_json(metrics.to_json()).value(), metrics);
  EXPECT_EQ(from_bytes<Metrics>(to_bytes(metrics)).value(), metrics);
  EXPECT_EQ(metrics, (Metrics{{"a", kNan}, {"c", -HUGE_VAL}, {"b", 0.1}}));
  EXPECT_FALSE(metrics == (Metrics{{"a", kNan}, {"c", -HUGE_VAL}, {"d", 0.1}}));
  EXPECT_FALSE(Metrics::from_json("[]").has_value());
  EXPECT_FALSE(Metrics::from_json(R"({"a":"text"})").has_value());
}

TEST(Metrics, OfANameWrittenTwiceTheLastCounts) {
  Metrics metrics = {{"a", 1}, {"b", 2}, {"a", 3}};
  EXPECT_EQ(metrics.size(), 2u);
  EXPECT_EQ(metrics.at("a"), 3);
  metrics["d"] += 1;
  metrics.erase("a");
  EXPECT_EQ(metrics.to_json(), R"({"b":2.0,"d":1.0})");
}

TEST(Metrics, NanIsWorseThanEveryNumber) {
  for (const Mode mode : {Mode::kMax, Mode::kMin}) {
    for (const double value : {0.0, 1e300, -1e300}) {
      EXPECT_TRUE(better(value, kNan, mode));
      EXPECT_FALSE(better(kNan, value, mode));
    }
    EXPECT_FALSE(better(kNan, kNan, mode));
    EXPECT_FALSE(better(1, 1, mode));
  }
  EXPECT_TRUE(better(2, 1, Mode::kMax));
  EXPECT_TRUE(better(1, 2, Mode::kMin));
}

TEST(Metrics, ACopyKeepsWhatItHadWhenTheOtherChanges) {
  Metrics one{{"loss", 1}, {"accuracy", 2}};
  const Metrics copy = one;
  one.set("loss", 3);
  one.set("recall", 4);
  one.erase("accuracy");
  EXPECT_EQ(copy, (Metrics{{"loss", 1}, {"accuracy", 2}}));
  EXPECT_EQ(one, (Metrics{{"loss", 3}, {"recall", 4}}));
  const Metrics& itself = one;
  one = itself;
  EXPECT_EQ(one.size(), 2U);
  const Metrics moved = std::move(one);
  EXPECT_EQ(moved.at("recall"), 4);
  Metrics none;
  EXPECT_TRUE(none.empty());
  none.erase("loss");
  none = copy;
  EXPECT_EQ(none, copy);
}

TEST(Metrics, TakesAnotherOnesValuesWithMoreBehindThem) {
  Metrics last, like;
  last.take({{"loss", 1}}, {{"step", 1}}, like);
  const Metrics shown = last;
  last.take({{"loss", 2}}, {{"step", 2}}, like);
  EXPECT_EQ(last, (Metrics{{"loss", 2}, {"step", 2}}));
  EXPECT_EQ(shown, (Metrics{{"loss", 1}, {"step", 1}})) << "a copy";
  EXPECT_EQ(last.names(), shown.names());
  Metrics other;
  other.take({{"loss", 3}}, {{"step", 4}}, shown);
  EXPECT_EQ(other, (Metrics{{"loss", 3}, {"step", 4}}));
  EXPECT_EQ(other.names(), shown.names());
  other.set("more", 5);
  EXPECT_EQ(shown.size(), 2U) << "names are its own where they change";
  EXPECT_EQ(other.to_json(), R"({"loss":3.0,"step":4.0,"more":5.0})");
  last.take({{"accuracy", 3}}, {{"step", 3}}, shown);
  EXPECT_EQ(last, (Metrics{{"accuracy", 3}, {"step", 3}})) << "other names";
  last.take({{"step", 7}, {"loss", 8}}, {{"step", 4}}, shown);
  EXPECT_EQ(last.to_json(), R"({"step":4.0,"loss":8.0})") << "the one behind counts";
  last.take({}, {}, shown);
  EXPECT_TRUE(last.empty());
  last.take({}, {{"step", 1}}, shown);
  last.take({}, {{"step", 2}}, shown);
  EXPECT_EQ(last, (Metrics{{"step", 2}}));
}

TEST(MetricSummary, LeavesNanOut) {
  MetricSummary summary;
  int64_t step = 0;
  for (const double value : {3.0, kNan, 1.0, 5.0, 1.0, 5.0, kNan}) summary.add(value, ++step);
  EXPECT_EQ(summary.min, 1);
  EXPECT_EQ(summary.max, 5);
  EXPECT_EQ(summary.mean, 3);
  EXPECT_EQ(summary.count, 5);
  EXPECT_EQ(summary.nan_count, 2);
  EXPECT_TRUE(std::isnan(summary.last));
  EXPECT_EQ(summary.best(Mode::kMin), 1);
  EXPECT_EQ(summary.last_step, 7);
  EXPECT_EQ(summary.min_step, 3) << "the first of equal ones";
  EXPECT_EQ(summary.max_step, 4);
}

TEST(TrialId, IsUniqueInAnExperimentAndTheSameEachTime) {
  std::set<TrialId> ids;
  for (int64_t i = 0; i < 100'000; ++i) ids.insert(TrialId::of(7, i));
  EXPECT_EQ(ids.size(), 100'000u);
  EXPECT_EQ(TrialId::of(7, 3), TrialId::of(7, 3));
  EXPECT_NE(TrialId::of(7, 3), TrialId::of(8, 3));
  EXPECT_NE(TrialId::of(7, 3), TrialId::of(7 + (uint64_t{1} << 32), 3));
  EXPECT_EQ(to_string(TrialId(0x1a2b)), "00001a2b");
  EXPECT_EQ(TrialId::parse("00001a2b").value(), TrialId(0x1a2b));
  for (const char* bad : {"", "1a2b", "00001A2B", "0000001a2b", "0000zzzz"})
    EXPECT_FALSE(TrialId::parse(bad).has_value()) << bad;
}

}  // namespace
}  // namespace volador::tune
