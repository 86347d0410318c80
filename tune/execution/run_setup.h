// Prepares a run from its options and rejects invalid ones before anything starts.
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
  RunOptions options;     // With the name and, on a resume, the seed of the run.
  ResourceSet resources;  // Resources of each trial.
  uint64_t seed = 0;
  std::optional<JournalContents> earlier;  // Journal of the run to resume.
  std::vector<EarlierTrial> warm_start;    // Trials that the searcher has learned from already.
  std::vector<std::string> notices;        // Messages to the user.
  JournalHeader header;                    // Without its time.
  std::optional<int64_t> total;            // Total trials by these options; no value: unlimited.
  std::unique_ptr<TrialLoop> loop;
  RecordingSearcher* recording = nullptr;  // The loop's searcher.
  std::shared_ptr<EarlierRun> replayed;    // As searcher and scheduler see the run to resume.
};

// kInvalidArgument: an option is invalid, or differs from the run to resume; the message names it. Also returns errors
// of the journal.
// kAsksAgain: searcher and scheduler decide anew in the replay, whatever they decided in the run.
enum class Replay : uint8_t { kRestores, kAsksAgain };
[[nodiscard]] Result<PreparedRun> prepare_run(const TrainableRef& trainable, RunOptions options, Random& random,
                                              Replay replay = Replay::kRestores);

}  // namespace volador::tune
