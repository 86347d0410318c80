#include "dashboard/actor_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace volador::dashboard {
namespace {

using testing::HasSubstr;
using testing::Not;

v1::MetricSeries series(const std::string& name, const std::string& kind, double value, const std::string& split = {}) {
  v1::MetricSeries made;
  made.set_name(name);
  made.set_kind(kind);
  made.set_value(value);
  if (!split.empty()) (*made.mutable_labels())["split"] = split;
  return made;
}
v1::ActorMetrics of(const std::string& actor, const std::vector<v1::MetricSeries>& all) {
  v1::ActorMetrics made;
  made.set_id(actor);
  for (const auto& one : all) *made.add_series() = one;
  return made;
}
std::string text_of(const ActorMetrics& metrics) {
  std::string out;
  metrics.append_prometheus(out, [](const std::string& actor) {
    return ActorMetrics::Labels{
        .name = actor == "aa" ? "hits" : "", .actor_namespace = "default", .class_name = "Reader", .node = "heron"};
  });
  return out;
}

TEST(ActorMetrics, AFamilyStandsTogetherWithTheLabelsOfItsActors) {
  ActorMetrics metrics;
  v1::MetricSeries rows = series("rows_total", "counter", 3, "train");
  rows.set_help("Rows\nread \\ kept");
  metrics.apply(of("aa", {rows, series("depth", "gauge", -1.5)}));
  metrics.apply(of("bb", {series("rows_total", "counter", 4, "a\"b\\c\nd")}));
  EXPECT_EQ(text_of(metrics),
            "# HELP volador_app_depth Of actors.\n# TYPE volador_app_depth gauge\n"
            "volador_app_depth{actor=\"aa\",name=\"hits\",namespace=\"default\",class=\"Reader\",node=\"heron\"} -1.5\n"
            "# HELP volador_app_rows_total Rows read \\\\ kept\n# TYPE volador_app_rows_total counter\n"
            "volador_app_rows_total{actor=\"aa\",name=\"hits\",namespace=\"default\",class=\"Reader\",node=\"heron\","
            "split=\"train\"} 3\n"
            "volador_app_rows_total{actor=\"bb\",namespace=\"default\",class=\"Reader\",node=\"heron\",split="
            "\"a\\\"b\\\\c d\"} 4\n");
}

TEST(ActorMetrics, AHistogramsBucketsAddUp) {
  ActorMetrics metrics;
  v1::MetricSeries seconds = series("s", "histogram", 12);
  for (const double bound : {0.5, 1.0}) seconds.add_bounds(bound);
  for (const uint64_t count : {2U, 1U, 3U}) seconds.add_counts(count);
  metrics.apply(of("bb", {seconds}));
  const std::string labels = "actor=\"bb\",namespace=\"default\",class=\"Reader\",node=\"heron\"";
  EXPECT_THAT(text_of(metrics),
              HasSubstr("volador_app_s_bucket{" + labels + ",le=\"0.5\"} 2\nvolador_app_s_bucket{" + labels +
                        ",le=\"1\"} 3\nvolador_app_s_bucket{" + labels + ",le=\"+Inf\"} 6\nvolador_app_s_sum{" +
                        labels + "} 12\nvolador_app_s_count{" + labels + "} 6\n"));
  const auto json = nlohmann::json::parse(actor_metrics_json(metrics.find("bb")));
  EXPECT_EQ(json["series"][0]["counts"], (std::vector<int>{2, 1, 3}));
  EXPECT_EQ(json["left_out"], 0);
}

TEST(ActorMetrics, TheSameNameOfAnotherKindIsLeftOut) {
  ActorMetrics metrics;
  metrics.apply(of("aa", {series("n", "counter", 1)}));
  metrics.apply(of("bb", {series("n", "gauge", 2)}));
  EXPECT_THAT(text_of(metrics), HasSubstr("# TYPE volador_app_n counter"));
  EXPECT_THAT(text_of(metrics), Not(HasSubstr("actor=\"bb\"")));
}

TEST(ActorMetrics, BeyondTheLimitSeriesAreLeftOutAndCounted) {
  ActorMetrics metrics(3);
  metrics.apply(of("aa", {series("a", "gauge", 1), series("b", "gauge", 1)}));
  metrics.apply(of("bb", {series("a", "gauge", 1), series("b", "gauge", 1)}));
  EXPECT_EQ(metrics.series(), 3u);
  EXPECT_EQ(metrics.left_out(), 1u);
  metrics.apply(of("aa", {series("a", "gauge", 9)}));
  EXPECT_EQ(metrics.series(), 2u) << "in place of those before";
  metrics.forget("aa");
  metrics.forget("aa");
  EXPECT_EQ(metrics.series(), 1u);
  EXPECT_EQ(metrics.find("aa"), nullptr);
  EXPECT_EQ(actor_metrics_json(nullptr), R"({"series":[],"left_out":0})");
}

TEST(ActorMetrics, WhatIsNoNumberIsWrittenAsPrometheusReadsIt) {
  ActorMetrics metrics;
  metrics.apply(of("aa", {series("a", "gauge", std::nan("")), series("b", "gauge", INFINITY)}));
  EXPECT_THAT(text_of(metrics), HasSubstr("} NaN\n"));
  EXPECT_THAT(text_of(metrics), HasSubstr("} +Inf\n"));
}

}  // namespace
}  // namespace volador::dashboard
