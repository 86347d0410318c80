// Compares schedulers on the same simulated searches, for several seeds.
#pragma once

#include <string>
#include <vector>

#include "tune/simulation/simulation.h"

namespace volador::tune {

struct SchedulerComparison {
  struct Row {
    std::string name;
    int64_t seeds = 0;
    // Means over the seeds.
    double trials = 0, finished = 0, stopped = 0, steps = 0, elapsed_s = 0, busy_share = 0;
    std::optional<double> first_finished_s;  // Mean over the seeds in which a trial finished.
    std::optional<double> best;
    std::vector<double> curve;  // Mean best value at `times`; NaN before every seed has one.
  };
  std::vector<double> times;  // Seconds, for plots.
  std::vector<Row> rows;      // In the order of the arguments.
};

// Runs each scheduler with the seeds base.seed, base.seed + 1, …; `workload` returns the workload of a seed.
[[nodiscard]] Result<SchedulerComparison> compare_schedulers(
    const SimulationOptions& base, const std::vector<std::pair<std::string, SchedulerFactory>>& schedulers,
    int64_t seeds, const std::function<Result<Workload>(uint64_t seed)>& workload);

}  // namespace volador::tune
