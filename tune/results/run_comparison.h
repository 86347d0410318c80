// Comparison of runs: best trial, configuration and time of each. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tune/results/saved_run.h"

namespace volador::tune {

struct RunComparison {
  struct Row {
    const SavedRun* run = nullptr;
    const Trial* best = nullptr;
    double value = 0;                  // Metric of the best trial.
    int64_t steps = 0;                 // Total of all trials.
    std::chrono::nanoseconds time{0};  // From the start to the last update of the state.
  };
  std::string metric;
  Mode mode = Mode::kMax;
  std::vector<std::string> parameters;  // Parameters in which the best configurations differ.
  std::vector<Row> rows;                // Best first.
};

// Uses the metric of the first run unless `by` has one. The runs must outlive the comparison. kInvalidArgument: no
// metric, or a run never reported it; names the run and its metrics. kNotFound: it was always NaN.
[[nodiscard]] Result<RunComparison> compare_runs(const std::vector<SavedRun>& runs, Analysis::By by);

}  // namespace volador::tune
