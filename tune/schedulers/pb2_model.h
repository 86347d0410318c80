// What PB2 knows of how configurations change a trial's metric, and what it tries next. A function of its arguments.
#pragma once

#include <vector>

#include "runtime/random.h"
#include "tune/space/search_dimensions.h"

namespace volador::tune {

// What came of an interval.
struct Pb2Change {
  double time = 0;    // Of its end, in intervals.
  double before = 0;  // The metric at its beginning; larger is better.
  Point point;        // The values it ran with, by dimension.
  double gain = 0;    // Of the metric, an interval.
};

// The point of the unit cube with the highest upper confidence bound of the gain at `time`, from `before` on: a
// Gaussian process over time, metric and values, in which old changes say less. Points that run now, and have not
// reported, lower the uncertainty around them. Random where fewer than two changes are known. O(changes³).
Point pb2_suggest(const std::vector<Pb2Change>& changes, const std::vector<Point>& running, double time, double before,
                  size_t dimensions, Random& random);

}  // namespace volador::tune
