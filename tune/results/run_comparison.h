// Several runs side by side: which found the best, with what, in how much time. Pure.
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
    double value = 0;                  // Of the metric, of the best trial.
    int64_t steps = 0;                 // Of all trials.
    std::chrono::nanoseconds time{0};  // From the start to the state's last write.
  };
  std::string metric;
  Mode mode = Mode::kMax;
  std::vector<std::string> parameters;  // In which the best configurations differ.
  std::vector<Row> rows;                // Best first.
};

// Without a metric in `by`: that of the first run. The runs outlive the comparison.
// kInvalidArgument: no metric, or one that a run never reported; names the run and what it reports. kNotFound: it was
// NaN everywhere.
[[nodiscard]] Result<RunComparison> compare_runs(const std::vector<SavedRun>& runs, Analysis::By by);

}  // namespace volador::tune
