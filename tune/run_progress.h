// What tables and terminals show of a run's loop as it stands. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "runtime/actor/session.h"
#include "tune/experiment_directory.h"
#include "tune/progress_table.h"
#include "tune/run_options.h"
#include "tune/trial_loop.h"

namespace volador::tune {

// What of a moment is not in the loop.
struct RunMoment {
  ClusterTotals totals = {};
  std::chrono::nanoseconds elapsed{0};  // Since the program's start,
  std::chrono::nanoseconds of_loop{0};  // and of the loop's own time.
  int64_t slots = 0;                    // Trials that the cluster holds at once; below 1: not known.
  std::string ending = {};              // Why it ends, while it does.
};

class RunProgress {
 public:
  // References outlive it.
  RunProgress(const RunOptions& options, const ResourceSet& resources, const ExperimentDirectory& directory);

  ProgressSnapshot snapshot(const TrialLoop& loop, const RunMoment& moment) const;

 private:
  ProgressRow row_of(const TrialLoop& loop, const Trial& trial) const;
  std::optional<std::chrono::nanoseconds> time_left(const TrialLoop& loop, const RunMoment& moment) const;

  const RunOptions& options_;
  const ResourceSet& resources_;
  const ExperimentDirectory& directory_;
  std::vector<std::string> parameters_;  // Those that vary.
};

}  // namespace volador::tune
