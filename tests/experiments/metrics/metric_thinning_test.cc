#include "experiments/metrics/metric_thinning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace volador::experiments {
namespace {

std::vector<MetricPoint> points_of(const std::vector<double>& values) {
  std::vector<MetricPoint> points;
  for (const double value : values) points.push_back({static_cast<int64_t>(points.size()) * 10, 1, value});
  return points;
}

std::vector<int64_t> kept(const std::vector<double>& values, uint64_t stretches) {
  MetricThinning thinning(values.size(), stretches);
  const auto points = points_of(values);
  // In parts of any length.
  for (size_t begin = 0; begin < points.size(); begin += 3)
    thinning.add(std::span(points).subspan(begin, std::min<size_t>(3, points.size() - begin)));
  std::vector<int64_t> batches;
  for (const MetricPoint& point : thinning.take()) batches.push_back(point.batches / 10);
  return batches;
}

TEST(MetricThinnings, KeepExtremesOfEachStretch) {
  EXPECT_EQ(kept({3, 1, 2, 5, 4, 6, 9, 0, 8, 7}, 2), (std::vector<int64_t>{0, 1, 3, 6, 7, 9}));
}

TEST(MetricThinnings, KeepValuesThatAreNotFinite) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(kept({1, nan, 2, 3, 4, infinity, 5, -infinity}, 2), (std::vector<int64_t>{0, 1, 3, 4, 5, 6, 7}));
  EXPECT_EQ(kept({nan, nan, nan, nan}, 1), (std::vector<int64_t>{0, 3}));
}

TEST(MetricThinnings, FindTheExtremesOfTheSeries) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> values(1 + random() % 500);
    for (double& value : values) value = static_cast<double>(random() % 1000);
    const uint64_t stretches = 1 + random() % 50;
    const auto points = kept(values, stretches);
    EXPECT_LE(points.size(), 2 * stretches + 2);
    const auto has = [&](double value) {
      return std::any_of(points.begin(), points.end(),
                         [&](int64_t i) { return values[static_cast<size_t>(i)] == value; });
    };
    EXPECT_TRUE(has(*std::max_element(values.begin(), values.end())));
    EXPECT_TRUE(has(*std::min_element(values.begin(), values.end())));
    EXPECT_EQ(points.front(), 0);
    EXPECT_EQ(points.back(), static_cast<int64_t>(values.size()) - 1);
  }
}

TEST(MetricThinnings, TakePartsWithKnownExtremes) {
  MetricThinning thinning(30, 3);
  const auto points = points_of(std::vector<double>(10, 1));
  thinning.add(points);
  thinning.add(MetricExtremes{.low = MetricPoint{110, 1, -5}, .high = MetricPoint{120, 1, 5}}, 10);
  std::vector<MetricPoint> end(10);
  for (size_t i = 0; i < end.size(); ++i) end[i] = {200 + static_cast<int64_t>(i) * 10, 1, 0};
  thinning.add(end);
  std::vector<int64_t> batches;
  for (const MetricPoint& point : thinning.take()) batches.push_back(point.batches);
  EXPECT_EQ(batches, (std::vector<int64_t>{0, 110, 120, 200, 290}));
}

}  // namespace
}  // namespace volador::experiments
