// What tune::run is told. Every field has a default; names are those of Ray Tune.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/resources.h"
#include "runtime/strategy.h"
#include "tune/execution/callback.h"
#include "tune/loop/stopper.h"
#include "tune/loop/trial_loop.h"
#include "tune/schedulers/scheduler.h"
#include "tune/searchers/searcher.h"
#include "tune/space/space.h"

namespace volador::tune {

enum class Progress : uint8_t {
  kAuto,    // The live table in a terminal, plain lines elsewhere.
  kLines,   // Plain lines.
  kSilent,  // Nothing but errors.
};

struct RunOptions {
  std::string name = {};           // Of the experiment and its directory; by default that of the trainable.
  Space space = {};                // What varies; constants and nesting allowed.
  std::string metric = {};         // What trials are compared by; needed by schedulers and searchers that compare.
  Mode mode = Mode::kMax;
  bool strict_metric = true;       // The first result must have the metric where searcher or scheduler need it. false: it may come later; results without it are not compared.
  std::vector<Objective> objectives = {};    // Several at once: {{"error", Mode::kMin}, {"speed", Mode::kMax}}; the first is the metric where none is given.
  std::vector<std::string> constraints = {}; // Metrics that must be at most 0; with tune::nsga2(), Analysis::pareto_front().
  int64_t num_samples = 1;         // Draws from the space; each is multiplied by the grid. -1: until something stops the run.
  SearcherFactory searcher = {};   // By default tune::random_search().
  SchedulerFactory scheduler = {}; // By default tune::fifo().
  Stop stop = {};                  // {{"accuracy", 0.995}}, tune::any_of({…}).
  Resources resources_per_trial = {.cpus = 1};
  int64_t max_concurrent_trials = 0;             // 0: as many as the cluster takes.
  std::chrono::nanoseconds time_budget{0};       // Of the whole run; 0: none.
  int64_t max_failures = 0;                      // A trial is tried again after so many failures; -1: always.
  std::chrono::nanoseconds retry_backoff{0};     // A trial waits so long after its first failure, twice that after the next one, …; 0: not.
  std::chrono::nanoseconds retry_backoff_max = std::chrono::minutes(5);  // … and at most so long. A lost node is no failure: no wait.
  bool fail_fast = false;                        // The first trial that fails ends the run; with max_failures 0.
  int64_t max_losses = 10;                       // A trial goes on after losing its node so many times; -1: always.
  CheckpointOptions checkpoint = {};             // {.frequency = 1, .at_end = true, .num_to_keep = 2, .score_attribute = "accuracy"}
  std::filesystem::path storage_path = {};       // Results go below it; by default ~/volador_results.
  std::filesystem::path resume = {};             // The directory of an earlier run to go on with, whose options these are; num_samples and time_budget may grow.
  bool resume_errored = false;                   // With resume: trials that failed go on from their last checkpoint.
  bool restart_errored = false;                  // With resume: they begin anew.
  std::optional<uint64_t> seed = std::nullopt;   // Makes the configurations repeat; by default a random one, kept in experiment_state.json.
  // With a searcher that learns, .seed alone fixes the configurations where trials end in the same order. This fixes them whatever the timing:
  // tune::deterministic() around the searcher, its window max_concurrent_trials, or 8. Not with schedulers that compare trials.
  bool deterministic = false;
  bool raise_on_failed_trial = true;             // Throws at the end where a trial failed for good; results are kept all the same.
  std::chrono::nanoseconds step_timeout{0};      // A step that takes longer counts as a failure; 0: none. Time without a head does not count.
  std::chrono::milliseconds start_timeout{60'000};  // Of a trial's process and setup's beginning.
  bool reuse_actors = false;                     // Trials take over the processes of ended ones: saves their start, gives up their isolation.
  bool wait_if_infeasible = false;               // Waits for a larger node to join instead of refusing.
  Progress progress = Progress::kAuto;
  bool tensorboard = true;                       // Event files beside result.json and progress.csv.
  bool log_to_file = false;                      // What a trial prints goes to stdout and stderr in its folder too.
  std::string trial_name = {};                   // Of trials in tables and logs: "{id}_{lr}"; by default "{id}". See trial_names.h.
  std::string trial_folder = {};                 // Of their files, below the run's directory; has {id}; by default "{id}".
  std::vector<std::string> tags = {};            // Of the run: found by lists and the page.
  std::vector<std::filesystem::path> warm_start = {};  // Directories of earlier runs, from which the searcher learns first.
  std::vector<Resources> bundles_per_trial = {};       // A placement group for each trial: it runs in the first, its actors and tasks in the others.
  Strategy bundle_strategy = Strategy::kPack;
  int64_t artifact_bytes_max = int64_t{1} << 30;       // Of the files in a trial's artifacts folder, which come to the driver's disk; 0: none do.
  std::vector<std::shared_ptr<Callback>> callbacks = {};  // Told what happens, on a thread of their own.
};

}  // namespace volador::tune
