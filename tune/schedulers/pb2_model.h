// PB2's model of how hyperparameter values change a trial's metric, and its choice of the next values. Pure functions.
#pragma once

#include <vector>

#include "runtime/random.h"
#include "tune/space/search_dimensions.h"

namespace volador::tune {

// Observed outcome of one perturbation interval.
struct Pb2Change {
  double time = 0;    // End of the interval, in intervals.
  double before = 0;  // Metric at the start of the interval; larger is better.
  Point point;        // Hyperparameter values during the interval, by dimension.
  double gain = 0;    // Gain of the metric per interval.
};

// Returns the point of the unit cube with the highest upper confidence bound of the gain at `time` from `before`, by a
// Gaussian process over time, metric and values in which older changes have less weight. Points in `running`, which
// have not reported yet, reduce the uncertainty around them. Random if fewer than two changes are known. O(changes³).
Point pb2_suggest(const std::vector<Pb2Change>& changes, const std::vector<Point>& running, double time, double before,
                  size_t dimensions, Random& random);

}  // namespace volador::tune
