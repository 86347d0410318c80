// When which trial ran where: a row a slot, a bar an attempt. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tune/loop/trial.h"
#include "tune/plots/frame.h"

namespace volador::tune {

struct GanttPlot {
  struct Bar {
    std::string node;
    double begin_s = 0, end_s = 0;               // Of the experiment's time.
    TrialStatus status = TrialStatus::kRunning;  // How the attempt ended; kRunning: it goes on.
    std::string tip;
  };
  Heading heading;
  std::vector<Bar> bars;  // At most 50,000 are drawn, the first ones; the subtitle says so.
  double end_s = 0;       // Of the axis, at least.
  PlotSize size;          // The height follows the rows.
};

std::string gantt_svg(const GanttPlot& plot);

// The slot of each bar: on each node the lowest one that is free; slots of a node are numbered on from those of the
// node before, nodes by their names. O(bars × log bars).
struct SlotPlan {
  std::vector<size_t> slot_of;     // Beside the bars.
  std::vector<std::string> slots;  // Their nodes.
};
SlotPlan plan_slots(const std::vector<GanttPlot::Bar>& bars);

}  // namespace volador::tune
