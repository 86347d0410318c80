// Parameter importance as bars. Pure.
#pragma once

#include <string>
#include <vector>

#include "tune/plots/frame.h"

namespace volador::tune {

struct ImportancePlot {
  struct Bar {
    std::string name;
    double share = 0;  // Fraction of the variance, 0 to 1.
    double deviation = 0;
    bool pair = false;  // Interaction of two parameters.
  };
  Heading heading;
  std::vector<Bar> bars;  // Largest first; at most 30 are drawn.
  PlotSize size;          // The height follows from the bars.
};

std::string importance_svg(const ImportancePlot& plot);

}  // namespace volador::tune
