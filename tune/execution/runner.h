// Runs one experiment: feeds the loop with events and time, executes its actions, stores results and shows progress.
// The driver side of tune::run.
#pragma once

#include <functional>
#include <memory>

#include "runtime/actor/session.h"
#include "runtime/clock.h"
#include "runtime/random.h"
#include "tune/display/live_display.h"
#include "tune/execution/run_options.h"
#include "tune/execution/source_revision.h"
#include "tune/execution/trainable_registry.h"
#include "tune/results/analysis.h"
#include "tune/results/experiment_journal.h"

namespace volador::tune {

// Dependencies of a runner. References must outlive it.
struct RunnerEnvironment {
  std::shared_ptr<Session> session;
  const Clock& clock;  // Thread safe.
  Random& random;      // For a default seed.
  LiveDisplayOptions display;
  bool handle_signals = true;  // SIGINT and SIGTERM: the first lets trials checkpoint and stop, the second stops them
                               // at once, the third ends the program.
  std::chrono::milliseconds retry_pause{200};
  JournalProgram program = {};                  // For the journal: the program to start for a resume.
  std::function<SourceRevision()> source = {};  // Called once, on a separate thread; empty: unknown.
};

// kInvalidArgument: an option is invalid, the message names it; or the metric was never reported. kInfeasible: no node
// can ever hold a trial. kPermissionDenied, kUnavailable: the results directory. Failed trials are not an error here.
[[nodiscard]] Result<Analysis> run_experiment(const RunnerEnvironment& environment, const TrainableRef& trainable,
                                              RunOptions options);

}  // namespace volador::tune
