// Parallel coordinates: one line per trial, across one axis per parameter, to its metric. Pure.
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
    std::vector<std::string> categories;  // If not empty, values are indices into it.
  };
  struct Line {
    std::string tip;
    std::vector<double> values;  // One per axis; NaN: the trial does not have the parameter.
  };
  Heading heading;
  std::vector<Axis> axes;  // The metric is the last axis.
  Mode mode = Mode::kMax;
  std::vector<Line> lines;
  PlotSize size;
};

// The better a trial, the stronger its line; the best one is orange. A value that is absent, or not positive on a
// logarithmic axis, is drawn at "none" below it. At most 10,000 lines and 12 axes are drawn: the worst trials and the
// last parameters are dropped, and the subtitle reports this.
std::string parallel_svg(const ParallelPlot& plot);

}  // namespace volador::tune
