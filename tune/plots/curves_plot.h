// Learning curves: a metric over steps or time, a line a trial. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tune/loop/metrics.h"
#include "tune/plots/frame.h"

namespace volador::tune {

struct CurvesPlot {
  struct Curve {
    std::string label;  // Of the trial.
    std::string tip;    // Shown where the pointer rests on it.
    size_t group = 0;
    std::vector<PlotPoint> points;  // By x.
  };
  Heading heading;
  AxisLabel x, y;
  bool log_x = false, log_y = false;
  Mode mode = Mode::kMax;
  std::string group_title;          // What they are grouped by; empty: not at all.
  std::vector<std::string> groups;  // Their names, at most eight get a colour of their own.
  bool groups_ordered = false;      // From small to large: shades of one colour.
  std::vector<Curve> curves;
  PlotSize size;
};

// Up to eight curves have a colour each. More of them: the five best are in colour before the rest in grey. With
// groups: each curve faint in its group's colour, the median of a group in bold, and half of the group within a band.
// At most 5,000 curves and 200,000 points are drawn: curves are thinned so that no peak is lost, of too many the worst
// are left out, and the subtitle says so.
std::string curves_svg(const CurvesPlot& plot);

// So many points or fewer with the same first, last, lowest and highest ones in each stretch; `points` are by x.
std::vector<PlotPoint> thinned(const std::vector<PlotPoint>& points, size_t count);

}  // namespace volador::tune
