// Runs one experiment: feeds the loop with events and time, carries out its actions, keeps results, shows progress. The driver's side of
// tune::run.
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

// What a runner stands on. References outlive it.
struct RunnerEnvironment {
  std::shared_ptr<Session> session;
  const Clock& clock;     // Thread safe.
  Random& random;         // For a seed where none is given.
  LiveDisplayOptions display;
  bool handle_signals = true;  // SIGINT and SIGTERM: once trials checkpoint and stop, twice they stop at once, a third time the program ends.
  std::chrono::milliseconds retry_pause{200};
  JournalProgram program = {};  // For the journal: what to start again.
  std::function<SourceRevision()> source = {};  // Asked once, on a thread of its own; none: not known.
};

// kInvalidArgument: an option is wrong, the message names it; or the metric was never reported. kInfeasible: no node can ever hold a
// trial. kPermissionDenied, kUnavailable: the results directory. Failed trials are no error here.
[[nodiscard]] Result<Analysis> run_experiment(const RunnerEnvironment& environment, const TrainableRef& trainable, RunOptions options);

}  // namespace volador::tune
