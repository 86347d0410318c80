// Stores the drivers' experiment updates on the head's disk, so that experiments of ended programs survive a restart.
//
//   <head's folder>/experiments/<32 hex digits of the name's sha256>.open     a running experiment
//                                                                  .ended    an ended experiment
//
// One thread writes the updates of 20 ms in one batch, asynchronously. A file is a record_file.h of ExperimentRecords;
// a file that has grown too long is replaced by a summary of its records. Other stores (Redis) make no difference:
// these files stay on the head's machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "head/experiments/experiment_history.h"
#include "head/kernel/core.h"
#include "runtime/clock.h"
#include "runtime/result.h"

namespace volador::head {

// Folder and limits of the stored experiments.
struct ExperimentKeeperOptions {
  std::filesystem::path directory;
  // Total of all files. Beyond it the experiment with the oldest update is removed, ended ones first.
  uint64_t bytes_max = uint64_t{2} << 30;
  size_t files_max = 1'000;                    // Same.
  uint64_t summary_bytes = uint64_t{8} << 20;  // A file larger than this and than twice its last summary is summarized.
  // Limit of the write queue; updates beyond it are dropped and a warning is logged.
  size_t queue_bytes_max = size_t{64} << 20;
  size_t restored_max = 100;  // Number of newest experiments shown again.
  bool sync = false;          // Flushes each write to disk.
  HistoryLimits limits = {};
};

class ExperimentKeeper {
 public:
  // Creates the folder if needed and lists its files without reading them. kPermissionDenied, kUnavailable: the folder.
  // `clock` must outlive it.
  [[nodiscard]] static Result<std::unique_ptr<ExperimentKeeper>> open(const ExperimentKeeperOptions& options,
                                                                      const Clock& clock);
  // Calls stop().
  ~ExperimentKeeper();

  struct Kept {
    ExperimentHistory history;
    uint64_t rank = 0;  // As for HeadCore::restore_experiment.
  };
  // Reads the experiments that ran when the head ended, oldest first. Call before keep().
  std::vector<Kept> read_open();
  // Called on the thread with each ended experiment, oldest first, before anything is written. Returns false to stop.
  // Without start() nothing is written; call it once.
  using Restore = std::function<bool(const Kept&)>;
  // Called on the thread when a driver's updates of an experiment up to this number are on disk.
  using Written = std::function<void(DriverId driver, const std::string& experiment, uint64_t number)>;
  void start(Restore restore, Written written = {});

  // Thread safe; never blocks.
  void keep(ExperimentNews news);
  // Writes the queued updates. Idempotent.
  void stop();

 private:
  struct Impl;
  explicit ExperimentKeeper(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::head
