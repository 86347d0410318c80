// Thins a series out to a number of points: of equal stretches the lowest, the highest and the first value that is not
// finite remain, and of the series the first and the last point. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "experiments/metrics/metric_block.h"

namespace volador::experiments {

class MetricThinning {
 public:
  // `points`: how many will be added. `stretches`: at least 1.
  MetricThinning(uint64_t points, uint64_t stretches);

  // Consecutive parts of the series. Numbers of batches must ascend.
  void add(const MetricColumnView& view, size_t begin, size_t end);
  void add(std::span<const MetricPoint> points);
  // Stretches must not be shorter than kCoarseValues.
  void add(const MetricCoarseView& view);
  // A part of which only the extremes are known, not longer than a stretch: they count into the stretch of its middle.
  void add(const MetricExtremes& extremes, uint64_t points);

  uint64_t stretch_points() const { return points_ / stretches_; }  // At least.
  std::vector<MetricPoint> take();                                  // Call last.

 private:
  // Adds points from `begin` to before `end`, of which value_at and point_at know.
  template <class ValueAt, class PointAt>
  void add(size_t begin, size_t end, const ValueAt& value_at, const PointAt& point_at);
  void enter(uint64_t stretch);
  void merge(const MetricExtremes& extremes);
  void close();

  const uint64_t points_, stretches_;
  uint64_t added_ = 0;
  uint64_t stretch_ = 0;
  MetricExtremes extremes_;  // In this stretch.
  std::optional<MetricPoint> last_;
  std::vector<MetricPoint> kept_;
};

}  // namespace volador::experiments
