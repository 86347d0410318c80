// Options of tune::run. Every field has a default; names are those of Ray Tune.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
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
  kAuto,    // The live table in a terminal, otherwise plain lines.
  kLines,   // Plain lines.
  kSilent,  // Errors only.
};

struct RunOptions {
  std::string name = {};    // Name of the experiment and its directory; by default that of the trainable.
  Space space = {};         // Parameters; constants and nesting allowed.
  std::string metric = {};  // Metric that ranks trials; required by schedulers and searchers that compare trials.
  Mode mode = Mode::kMax;
  bool strict_metric =
      true;  // Fails if the first result lacks a needed metric; false: it may come later, results without it are not compared.
  std::vector<Objective> objectives =
      {};  // {{"error", Mode::kMin}, {"speed", Mode::kMax}}; the default metric is the first.
  std::vector<std::string> constraints =
      {};  // Metrics that must be at most 0; with tune::nsga2(), Analysis::pareto_front().
  int64_t num_samples =
      1;  // Draws from the space, each multiplied by the grid size. -1: until something stops the run.
  SearcherFactory searcher = {};    // By default tune::random_search().
  SchedulerFactory scheduler = {};  // By default tune::fifo().
  Stop stop = {};                   // {{"accuracy", 0.995}}, tune::any_of({…}).
  Resources resources_per_trial = {.cpus = 1};
  int64_t max_concurrent_trials = 0;          // 0: as many as the cluster can run.
  std::chrono::nanoseconds time_budget{0};    // Duration of the whole run; 0: unlimited.
  int64_t max_failures = 0;                   // Retries per trial after failures; -1: unlimited.
  std::chrono::nanoseconds retry_backoff{0};  // Delay before a trial's first retry; doubles with each failure; 0: none.
  std::chrono::nanoseconds retry_backoff_max = std::chrono::minutes(5);  // Limit of the delay; none after a lost node.
  bool fail_fast = false;   // The first failed trial ends the run; requires max_failures 0.
  int64_t max_losses = 10;  // Retries per trial after its node was lost; -1: unlimited.
  CheckpointOptions checkpoint =
      {};  // {.frequency = 1, .at_end = true, .num_to_keep = 2, .score_attribute = "accuracy"}
  std::filesystem::path storage_path =
      {};  // Parent directory of the results; by default ~/volador_results. An address such as "s3://bucket/prefix":
           // the results are in the default directory, and a copy of them and of the checkpoints in that storage.
  std::filesystem::path resume =
      {};                        // Directory of a run to resume, or the address of its copy in a storage; num_samples
                                 // and time_budget may grow.
  bool resume_errored = false;   // With resume: failed trials continue from their last checkpoint.
  bool restart_errored = false;  // With resume: failed trials start again from the beginning.
  std::optional<uint64_t> seed =
      std::nullopt;  // Reproducible configurations; by default random, kept in the state file.
  // With a searcher that learns, .seed alone fixes the configurations only if trials end in the same order. This option
  // fixes them independently of timing: it wraps the searcher in tune::deterministic() with a window of
  // max_concurrent_trials, or 8. Not with schedulers that compare trials.
  bool deterministic = false;
  bool raise_on_failed_trial = true;  // Throws at the end if a trial failed permanently; results are kept nevertheless.
  std::chrono::nanoseconds step_timeout{
      0};  // A step that takes longer counts as a failure; 0: none. Time without a head does not count.
  std::chrono::milliseconds start_timeout{60'000};  // For starting a trial's process and entering its setup.
  bool reuse_actors = false;  // Trials reuse the processes of ended ones: saves their start, gives up their isolation.
  bool wait_if_infeasible = false;  // Waits for a larger node to join instead of failing.
  Progress progress = Progress::kAuto;
  bool tensorboard = true;      // Writes event files beside result.json and progress.csv.
  bool log_to_file = false;     // Also writes the output of a trial to stdout and stderr in its folder.
  std::string trial_name = {};  // Name of trials in tables and logs: "{id}_{lr}"; by default "{id}". See trial_names.h.
  std::string trial_folder = {};  // Folder of a trial in the run's directory; must contain {id}; by default "{id}".
  std::vector<std::string> tags = {};  // Tags of the run, for lists and the dashboard.
  std::vector<std::filesystem::path> warm_start =
      {};  // Directories of earlier runs that the searcher learns from first.
  std::vector<Resources> bundles_per_trial =
      {};  // Placement group per trial: bundle 0 runs it, the others its actors and tasks.
  Strategy bundle_strategy = Strategy::kPack;
  int64_t artifact_bytes_max = int64_t{1} << 30;  // Limit of a trial's artifacts on the driver's disk; 0: disabled.
  std::vector<std::shared_ptr<Callback>> callbacks = {};  // Called on a dedicated thread.
  // For programs in other languages; called on the run's thread. `failure` is asked at least every 100 ms, and an error
  // ends the run, which can be resumed. `committed` is called, unless the run ends early, when the journal has everything
  // that led to the present state of searcher and scheduler; `last`: not again, the trials have ended or are about to
  // be interrupted.
  std::function<std::optional<Error>()> failure = {};
  std::function<void(const std::filesystem::path& directory, bool last)> committed = {};
};

}  // namespace volador::tune
