// Two objectives against each other, with their Pareto front. Pure.
#pragma once

#include <string>
#include <vector>

#include "tune/loop/metrics.h"
#include "tune/plots/frame.h"

namespace volador::tune {

struct ParetoPlot {
  struct Dot {
    std::string label;
    std::string tip;
    double x = 0, y = 0;
    bool front = false;
    bool feasible = true;  // Satisfies all constraints.
  };
  Heading heading;
  AxisLabel x, y;
  bool log_x = false, log_y = false;
  Mode mode_x = Mode::kMin, mode_y = Mode::kMin;
  std::vector<Dot> dots;  // At most 20,000 are drawn, front first.
  PlotSize size;
};

std::string pareto_svg(const ParetoPlot& plot);

}  // namespace volador::tune
