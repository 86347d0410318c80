// Gantt chart of trials: one row per slot, one bar per attempt. Pure.
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
    double begin_s = 0, end_s = 0;               // Experiment time.
    TrialStatus status = TrialStatus::kRunning;  // How the attempt ended; kRunning: it has not.
    std::string tip;
  };
  Heading heading;
  std::vector<Bar> bars;  // At most 50,000 are drawn, the first ones; the subtitle reports this.
  double end_s = 0;       // Minimum end of the axis.
  PlotSize size;          // The height follows from the rows.
};

std::string gantt_svg(const GanttPlot& plot);

// Assigns a slot to each bar: the lowest free one of its node. Slots are numbered consecutively across nodes, which are
// ordered by name. O(bars × log bars).
struct SlotPlan {
  std::vector<size_t> slot_of;     // One per bar.
  std::vector<std::string> slots;  // Node of each slot.
};
SlotPlan plan_slots(const std::vector<GanttPlot::Bar>& bars);

}  // namespace volador::tune
