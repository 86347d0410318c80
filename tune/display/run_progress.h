// Builds the progress snapshot of a run's loop for tables and terminals. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "runtime/actor/session.h"
#include "tune/display/progress_table.h"
#include "tune/execution/run_options.h"
#include "tune/loop/trial_loop.h"
#include "tune/results/experiment_directory.h"

namespace volador::tune {

// State of the run that is not in the loop.
struct RunMoment {
  ClusterTotals totals = {};
  std::chrono::nanoseconds elapsed{0};  // Since the program's start.
  std::optional<TimeLeft> left = {};    // Estimate; no value: unknown.
  std::string ending = {};              // Reason of the end, while the run is ending.
};

class RunProgress {
 public:
  // References must outlive the object.
  RunProgress(const RunOptions& options, const ResourceSet& resources, const ExperimentDirectory& directory);

  ProgressSnapshot snapshot(const TrialLoop& loop, const RunMoment& moment) const;

 private:
  ProgressRow row_of(const TrialLoop& loop, const Trial& trial) const;
  std::optional<ProgressBest> best_of(const TrialLoop& loop, Scope scope) const;
  std::vector<std::string> parameters_of(const Trial& trial) const;

  const RunOptions& options_;
  const ResourceSet& resources_;
  const ExperimentDirectory& directory_;
  std::vector<std::string> parameters_;  // Variable parameters.
};

}  // namespace volador::tune
