// Progress of trials in a halving search: one column per rung, one dot per trial. Pure.
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
    double value = 0;        // Value of the metric at the rung; NaN is drawn at the worse edge.
    Act act = Act::kPassed;  // Decision for the trial at this rung.
  };
  struct Rung {
    int64_t bracket = 0;                                       // -1: no brackets.
    double milestone = 0;                                      // Steps.
    double cutoff = std::numeric_limits<double>::quiet_NaN();  // Cutoff of the latest decision.
    std::vector<Member> members;
  };
  Heading heading;
  AxisLabel y;
  bool log_y = false;
  Mode mode = Mode::kMax;
  std::vector<Rung> rungs;  // By bracket, then milestone. At most 40 columns and 20,000 dots are drawn; the subtitle
                            // reports what is dropped.
  PlotSize size;
};

std::string rungs_svg(const RungsPlot& plot);

}  // namespace volador::tune
