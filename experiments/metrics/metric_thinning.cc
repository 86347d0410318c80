#include "experiments/metrics/metric_thinning.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace volador::experiments {

MetricThinning::MetricThinning(uint64_t points, uint64_t stretches)
    : points_(std::max<uint64_t>(points, 1)), stretches_(stretches) {}

void MetricThinning::add(const MetricColumnView& view, size_t begin, size_t end) {
  const auto point_at = [&](size_t i) { return view.point(i); };
  if (view.floats() != nullptr) {
    add(
        begin, end,
        [values = view.floats()](size_t i) {
          float value;
          std::memcpy(&value, values + i * sizeof value, sizeof value);
          return value;
        },
        point_at);
  } else {
    add(
        begin, end,
        [values = view.doubles()](size_t i) {
          double value;
          std::memcpy(&value, values + i * sizeof value, sizeof value);
          return value;
        },
        point_at);
  }
}

void MetricThinning::add(std::span<const MetricPoint> points) {
  add(
      0, points.size(), [&](size_t i) { return points[i].value; }, [&](size_t i) { return points[i]; });
}

template <class ValueAt, class PointAt>
void MetricThinning::add(size_t begin, size_t end, const ValueAt& value_at, const PointAt& point_at) {
  if (begin == end) return;
  if (added_ == 0) kept_.push_back(point_at(begin));
  last_ = point_at(end - 1);
  using Value = decltype(value_at(size_t{0}));
  while (begin < end) {
    enter(added_ * stretches_ / points_);
    const uint64_t stretch_end = (points_ * (stretch_ + 1) + stretches_ - 1) / stretches_;
    const size_t until = begin + std::min<uint64_t>(end - begin, std::max<uint64_t>(stretch_end, added_ + 1) - added_);
    // Values that are not finite fail both comparisons with these bounds.
    constexpr Value kMost = std::numeric_limits<Value>::max();
    size_t low = until, high = until, odd = until;
    Value least = kMost, most = -kMost;
    for (size_t i = begin; i < until; ++i) {
      const Value value = value_at(i);
      if (value >= -kMost && value <= kMost) {
        if (value < least || low == until) least = value, low = i;
        if (value > most || high == until) most = value, high = i;
      } else if (odd == until) {
        odd = i;
      }
    }
    MetricExtremes found;
    if (low != until) found.low = point_at(low);
    if (high != until) found.high = point_at(high);
    if (odd != until) found.odd = point_at(odd);
    merge(found);
    added_ += until - begin;
    begin = until;
  }
}

void MetricThinning::add(const MetricExtremes& extremes, uint64_t points) {
  enter(std::min(stretches_ - 1, (added_ + points / 2) * stretches_ / points_));
  merge(extremes);
  added_ += points;
}

void MetricThinning::add(const MetricCoarseView& view) {
  if (added_ == 0) kept_.push_back(view.first());
  last_ = view.last();
  for (size_t part = 0; part < view.size(); ++part) add({view.low(part), view.high(part), {}}, view.values(part));
}

void MetricThinning::enter(uint64_t stretch) {
  // A part may have counted into the stretch of its middle, behind this point.
  if (stretch <= stretch_) return;
  close();
  stretch_ = stretch;
}

void MetricThinning::merge(const MetricExtremes& extremes) {
  if (extremes.low && (!extremes_.low || extremes.low->value < extremes_.low->value)) extremes_.low = extremes.low;
  if (extremes.high && (!extremes_.high || extremes.high->value > extremes_.high->value))
    extremes_.high = extremes.high;
  if (!extremes_.odd) extremes_.odd = extremes.odd;
}

void MetricThinning::close() {
  const auto begin = static_cast<ptrdiff_t>(kept_.size());
  for (const auto* point : {&extremes_.low, &extremes_.high, &extremes_.odd}) {
    if (*point) kept_.push_back(**point);
  }
  extremes_ = {};
  std::sort(kept_.begin() + begin, kept_.end(),
            [](const MetricPoint& a, const MetricPoint& b) { return a.batches < b.batches; });
  // One of them may be the first point of the series, or two the same.
  kept_.erase(std::unique(kept_.begin() + std::max<ptrdiff_t>(begin - 1, 0), kept_.end(),
                          [](const MetricPoint& a, const MetricPoint& b) { return a.batches == b.batches; }),
              kept_.end());
}

std::vector<MetricPoint> MetricThinning::take() {
  close();
  if (last_ && !kept_.empty() && kept_.back().batches < last_->batches) kept_.push_back(*last_);
  return std::move(kept_);
}

}  // namespace volador::experiments
