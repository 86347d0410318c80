// Who came how far in a halving search: a column a rung, a dot a trial. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tune/loop/decision_record.h"
#include "tune/loop/metrics.h"
#include "tune/plots/frame.h"

namespace volador::tune {

struct RungsPlot {
  struct Member {
    std::string tip;
    double value = 0;        // Of the metric at the rung; NaN stands at the worse edge.
    Act act = Act::kPassed;  // What became of it there.
  };
  struct Rung {
    int64_t bracket = 0;                                       // -1: there are none.
    double milestone = 0;                                      // Steps.
    double cutoff = std::numeric_limits<double>::quiet_NaN();  // Of the latest decision.
    std::vector<Member> members;
  };
  Heading heading;
  AxisLabel y;
  bool log_y = false;
  Mode mode = Mode::kMax;
  std::vector<Rung> rungs;  // By bracket, then milestone. At most 40 columns and 20,000 dots are drawn; the subtitle
                            // says what is left out.
  PlotSize size;
};

std::string rungs_svg(const RungsPlot& plot);

}  // namespace volador::tune
