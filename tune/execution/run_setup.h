// A run made ready from its options: what can be refused before anything starts is refused here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/random.h"
#include "runtime/resources.h"
#include "runtime/result.h"
#include "tune/execution/run_options.h"
#include "tune/execution/trainable_registry.h"
#include "tune/loop/trial_loop.h"
#include "tune/results/experiment_journal.h"
#include "tune/searchers/recording_searcher.h"

namespace volador::tune {

struct PreparedRun {
  RunOptions options;     // With the name, and on a resume the seed, of the run.
  ResourceSet resources;  // Of each trial.
  uint64_t seed = 0;
  std::optional<JournalContents> earlier;  // Of the run to go on with.
  std::vector<EarlierTrial> warm_start;    // What the searcher has learned already.
  std::vector<std::string> notices;        // To be said.
  JournalHeader header;                    // Without its time.
  std::optional<int64_t> total;            // Trials in all by these options; no value: no end.
  std::unique_ptr<TrialLoop> loop;
  RecordingSearcher* recording = nullptr;  // The loop's searcher.
};

// kInvalidArgument: an option is wrong, or not that of the run to go on with; the message names it. Also errors of the
// journal.
[[nodiscard]] Result<PreparedRun> prepare_run(const TrainableRef& trainable, RunOptions options, Random& random);

}  // namespace volador::tune
