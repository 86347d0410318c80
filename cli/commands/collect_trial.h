// Runs the command of a trial of kind Trial and collects its metrics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/head_calls.h"
#include "cli/outcome.h"
#include "cli/trial_checkpoints.h"
#include "experiments/katib/collection.h"

namespace volador::cli {

struct CollectedTrial {
  int64_t trial = 0, run = 0;
  std::string node;
  experiments::katib::Collection collection;
  std::vector<std::string> command;
  TrialCheckpoints checkpoints;
};

// Runs the command as a child and returns when it has ended and the head has what it reported: each report while it
// runs, and at its end the observation and the searcher's metric. Ends this process as the child has ended, by its exit
// code or its signal; 0 where a rule stopped it early.
//
// Where the child fails, or is stopped from outside, the observation is not reported. Its folder of checkpoints is stored
// unless it is stopped from outside.
// calls: is used from another thread until it returns.
[[nodiscard]] Outcome collect_trial(const Context& context, const CollectedTrial& trial, HeadCalls& calls);

}  // namespace volador::cli
