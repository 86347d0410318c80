// Learning curves: a metric over steps or time, one line per trial. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tune/loop/metrics.h"
#include "tune/plots/frame.h"

namespace volador::tune {

struct CurvesPlot {
  struct Curve {
    std::string label;  // Name of the trial.
    std::string tip;    // Tooltip.
    size_t group = 0;
    std::vector<PlotPoint> points;  // Ascending x.
  };
  Heading heading;
  AxisLabel x, y;
  bool log_x = false, log_y = false;
  Mode mode = Mode::kMax;
  std::string group_title;          // Grouping criterion; empty: no groups.
  std::vector<std::string> groups;  // Names of the groups; at most eight get a colour of their own.
  bool groups_ordered = false;      // Ordered from small to large: shades of one colour.
  std::vector<Curve> curves;
  PlotSize size;
};

// Up to eight curves have a colour each. With more, the five best are coloured and the others are grey behind them.
// With groups: each curve is faint in its group's colour, the median of a group is bold, and a band covers half of the
// group. At most 5,000 curves and 200,000 points are drawn: curves are thinned without losing peaks, surplus curves are
// dropped, worst first, and the subtitle reports this.
std::string curves_svg(const CurvesPlot& plot);

// Reduces to at most `count` points, keeping the first, last, lowest and highest of each stretch; `points` are in
// ascending x.
std::vector<PlotPoint> thinned(const std::vector<PlotPoint>& points, size_t count);

}  // namespace volador::tune
