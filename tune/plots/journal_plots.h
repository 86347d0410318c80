// What of a run's journal is drawn. Pure.
#pragma once

#include <vector>

#include "tune/plots/gantt_plot.h"
#include "tune/plots/rungs_plot.h"
#include "tune/results/experiment_journal.h"

namespace volador::tune {

// Of schedulers with rungs, each trial with what became of it last at each of them; by bracket, then milestone.
std::vector<RungsPlot::Rung> rungs_of(const JournalContents& journal);

// The attempts that started. Those under way end at the last event.
std::vector<GanttPlot::Bar> attempts_of(const JournalContents& journal);

}  // namespace volador::tune
