#include "runtime/actor/metric_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "runtime/actor/metrics.h"

namespace volador {
namespace {

using Kind = protocol::MetricSeries;

const ActorId kActor{{1}};
const ActorId kOther{{2}};

TEST(MetricRegistry, OneSeriesForEachSetOfLabelsAndAllOfAnActorsWhereOneChanged) {
  MetricRegistry registry;
  const auto trained = registry.cell(
      kActor, {.kind = Kind::COUNTER, .name = "rows", .help = "Rows", .labels = {{"split", "train"}}, .bounds = {}});
  const auto tested = registry.cell(
      kActor, {.kind = Kind::COUNTER, .name = "rows", .help = "Rows", .labels = {{"split", "test"}}, .bounds = {}});
  EXPECT_NE(trained, tested);
  EXPECT_EQ(registry.cell(kActor, trained->spec()), trained);
  trained->add(2);
  trained->add(0.5);
  auto changed = registry.take_changed();
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0].actor_id(), raw(kActor));
  ASSERT_EQ(changed[0].series_size(), 2);
  EXPECT_EQ(changed[0].series(1).labels().at("split"), "train");
  EXPECT_DOUBLE_EQ(changed[0].series(1).value(), 2.5);
  EXPECT_DOUBLE_EQ(changed[0].series(0).value(), 0);
  EXPECT_TRUE(registry.take_changed().empty());
  tested->add(1);
  EXPECT_EQ(registry.take_changed().size(), 1u);
  registry.forget(kActor);
  trained->add(1);  // Its handle may outlive it.
  EXPECT_TRUE(registry.take_changed().empty());
}

TEST(MetricRegistry, AHistogramCountsEachBucketAndTheOneAbove) {
  MetricRegistry registry;
  const auto cell =
      registry.cell(kActor, {.kind = Kind::HISTOGRAM, .name = "seconds", .help = "", .labels = {}, .bounds = {1, 2}});
  for (const double value : {0.5, 1.0, 1.5, 9.0}) cell->observe(value);
  const auto changed = registry.take_changed();
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_THAT(changed[0].series(0).counts(), testing::ElementsAre(2, 1, 1)) << "a bound belongs to the bucket below it";
  EXPECT_DOUBLE_EQ(changed[0].series(0).value(), 12);
}

TEST(MetricRegistry, WhatIsBeyondTheLimitCountsNowhereAndIsCounted) {
  MetricRegistry registry;
  const auto make = [&](const ActorId& actor, size_t at) {
    return registry.cell(
        actor, {.kind = Kind::GAUGE, .name = "g", .help = "", .labels = {{"n", std::to_string(at)}}, .bounds = {}});
  };
  for (size_t at = 0; at < MetricLimits::kSeries + 3; ++at) make(kActor, at)->set(1);
  make(kOther, 0)->set(1);
  const auto changed = registry.take_changed();
  ASSERT_EQ(changed.size(), 2u);
  EXPECT_EQ(static_cast<size_t>(changed[0].series_size()), MetricLimits::kSeries);
  EXPECT_EQ(changed[0].left_out(), 3u);
  EXPECT_EQ(changed[1].left_out(), 0u) << "each actor has its own limit";
}

TEST(MetricRegistry, AnotherKindOfTheSameNameIsNotReported) {
  MetricRegistry registry;
  registry.cell(kActor, {.kind = Kind::COUNTER, .name = "n", .help = "", .labels = {}, .bounds = {}})->add(1);
  registry.cell(kActor, {.kind = Kind::GAUGE, .name = "n", .help = "", .labels = {}, .bounds = {}})->set(7);
  const auto changed = registry.take_changed();
  ASSERT_EQ(changed[0].series_size(), 1);
  EXPECT_DOUBLE_EQ(changed[0].series(0).value(), 1);
}

TEST(MetricRegistry, ThreadsLoseNothing) {
  MetricRegistry registry;
  const auto cell = registry.cell(kActor, {.kind = Kind::COUNTER, .name = "n", .help = "", .labels = {}, .bounds = {}});
  std::vector<std::thread> threads;
  for (int at = 0; at < 4; ++at) {
    threads.emplace_back([&] {
      for (int n = 0; n < 10'000; ++n) cell->add(1);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_DOUBLE_EQ(registry.take_changed()[0].series(0).value(), 40'000);
}

TEST(Metrics, OutsideOfAnActorTheyGoNowhereAndBadOnesAreRefused) {
  metrics::Counter counter("rows_total", {.help = "Rows", .labels = {}});
  counter.add(3);
  for (const auto& actor : MetricRegistry::instance().take_changed()) EXPECT_EQ(actor.series_size(), 0);
  EXPECT_THROW(metrics::Gauge("not a name"), Exception);
  EXPECT_THROW(metrics::Histogram("h", {.help = "", .labels = {}, .bounds = {2, 1}}), Exception);
  EXPECT_THROW(metrics::Histogram("h", {.help = "", .labels = {{"class", "x"}}}), Exception);
}

}  // namespace
}  // namespace volador
