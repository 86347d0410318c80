// What drivers say of their experiments, on the head's disk, so that those whose programs are gone are there after a restart.
//
//   <head's folder>/experiments/<32 hex digits of the name's sha256>.open     one that runs
//                                                                  .ended    one that does not
//
// One thread writes, all that came within 20 ms at once; nobody waits for it. A file is a record_file.h of ExperimentRecords; where it has
// grown too long its records give way to a summary of them. A store of another kind (Redis) changes nothing here: these files stay on the
// machine of the head.
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

struct ExperimentKeeperOptions {
  std::filesystem::path directory;
  uint64_t bytes_max = uint64_t{2} << 30;  // Of all files; the experiment that was updated longest ago is removed, those that ended first.
  size_t files_max = 1'000;                // The same.
  uint64_t summary_bytes = uint64_t{8} << 20;  // A file beyond it, and beyond twice its last summary, is summed up.
  size_t queue_bytes_max = size_t{64} << 20;   // Waiting to be written; what comes beyond is not kept, and the log says so.
  size_t restored_max = 100;               // The newest are shown again.
  bool sync = false;                       // On the disk with each writing.
  HistoryLimits limits = {};
};

class ExperimentKeeper {
 public:
  // Looks at what is there; the folder is made. Nothing is read yet. kPermissionDenied, kUnavailable: the folder. `clock` outlives it.
  [[nodiscard]] static Result<std::unique_ptr<ExperimentKeeper>> open(const ExperimentKeeperOptions& options, const Clock& clock);
  // As stop().
  ~ExperimentKeeper();

  struct Kept {
    ExperimentHistory history;
    uint64_t rank = 0;  // As HeadCore::restore_experiment.
  };
  // Those that ran when the head ended, oldest first. Reads them now: call it before keep().
  std::vector<Kept> read_open();
  // Reads those that had ended, oldest first, and gives them to `restore` on the thread, before anything is written. False: no more of them.
  // Once; without it nothing is written.
  using Restore = std::function<bool(const Kept&)>;
  // On the thread: a driver's updates of an experiment are on the disk, up to this one's number.
  using Written = std::function<void(DriverId driver, const std::string& experiment, uint64_t number)>;
  void start(Restore restore, Written written = {});

  // Thread safe, never blocks.
  void keep(ExperimentNews news);
  // Writes what waits. Repeated calls do nothing.
  void stop();

 private:
  struct Impl;
  explicit ExperimentKeeper(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::head
