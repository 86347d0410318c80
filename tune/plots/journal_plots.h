// Extracts plot data from a run's journal. Pure.
#pragma once

#include <vector>

#include "tune/plots/gantt_plot.h"
#include "tune/plots/rungs_plot.h"
#include "tune/results/experiment_journal.h"

namespace volador::tune {

// Rungs of the scheduler, if it has any, with the last decision for each trial at each rung; by bracket, then
// milestone.
std::vector<RungsPlot::Rung> rungs_of(const JournalContents& journal);

// Returns the attempts that started. Running ones end at the last event.
std::vector<GanttPlot::Bar> attempts_of(const JournalContents& journal);

}  // namespace volador::tune
