// Parallel coordinates: a line a trial, across an axis a parameter, to its metric. Pure.
#pragma once

#include <string>
#include <vector>

#include "tune/loop/metrics.h"
#include "tune/plots/frame.h"

namespace volador::tune {

struct ParallelPlot {
  struct Axis {
    std::string name;
    bool log = false;
    std::vector<std::string> categories;  // Where there are any, values are their indices.
  };
  struct Line {
    std::string tip;
    std::vector<double> values;  // Beside the axes; NaN: the trial has no such parameter.
  };
  Heading heading;
  std::vector<Axis> axes;  // The metric is the last.
  Mode mode = Mode::kMax;
  std::vector<Line> lines;
  PlotSize size;
};

// The better a trial, the stronger its line; the best one is in orange. A value that is absent or does not fit a
// logarithmic axis stands at "none" below it. At most 10,000 lines and 12 axes are drawn: the worst trials and the last
// parameters are left out, and the subtitle says so.
std::string parallel_svg(const ParallelPlot& plot);

}  // namespace volador::tune
