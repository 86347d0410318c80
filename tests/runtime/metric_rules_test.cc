#include "runtime/metric_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace volador {
namespace {

using testing::HasSubstr;

TEST(MetricRules, WhatPrometheusTakesMayBeAName) {
  EXPECT_TRUE(check_metric("rows_total", {{"split", "train"}, {"_x9", ""}}));
  EXPECT_TRUE(check_metric(std::string(MetricLimits::kNameBytes, 'a'), {}));
}

TEST(MetricRules, ARefusalNamesTheThingAndTheRule) {
  const auto refusal = [](std::string_view name, const MetricLabels& labels = {}) {
    const auto checked = check_metric(name, labels);
    return checked ? std::string("taken") : checked.error().message;
  };
  EXPECT_THAT(refusal(""), HasSubstr("metric \"\": expected 1 to 100 letters"));
  EXPECT_THAT(refusal("9lives"), HasSubstr("metric \"9lives\""));
  EXPECT_THAT(refusal("a-b"), HasSubstr("no digit first"));
  EXPECT_THAT(refusal(std::string(MetricLimits::kNameBytes + 1, 'a')), HasSubstr("expected 1 to 100"));
  EXPECT_THAT(refusal("a\nb 1"), HasSubstr("expected 1 to 100"));
  EXPECT_THAT(refusal("a", {{"node", "x"}}), HasSubstr("metric a, label \"node\": every series has this one"));
  EXPECT_THAT(refusal("a", {{"le", "x"}}), HasSubstr("every series has this one"));
  EXPECT_THAT(refusal("a", {{"__name__", "x"}}), HasSubstr("label \"__name__\""));
  EXPECT_THAT(refusal("a", {{"b", std::string(101, 'x')}}), HasSubstr("at most 100 bytes, got 101"));
  MetricLabels many;
  for (size_t at = 0; at <= MetricLimits::kLabels; ++at) many.emplace("l" + std::to_string(at), "");
  EXPECT_THAT(refusal("a", many), HasSubstr("at most 8 labels, got 9"));
}

}  // namespace
}  // namespace volador
