// MachineMeter and GpuMeter on a thread of their own: a file system of another machine or a driver may answer slowly or never, and a
// node's leases do not wait for it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "worker/resources/gpu_meter.h"
#include "worker/resources/machine_meter.h"

namespace volador::worker {

// Thread safe.
class MachineWatch {
 public:
  static constexpr std::chrono::seconds kEvery{2};
  static constexpr std::chrono::seconds kEveryWithGpus{1};
  static constexpr std::chrono::seconds kOldest{10};  // What is older is not handed out: a reading hangs.

  struct Reading {
    protocol::MachineUsage machine;
    std::vector<GpuMeter::Reading> gpus;
  };

  // Starts the thread. `clock` outlives it.
  MachineWatch(const Clock& clock, std::vector<UsedFolder> folders, bool has_gpus);
  // Waits a moment for the reading in progress; one that hangs is left alone.
  ~MachineWatch();
  MachineWatch(const MachineWatch&) = delete;
  MachineWatch& operator=(const MachineWatch&) = delete;

  // The newest one; nullopt: there is none yet, or it is too old.
  std::optional<Reading> newest(BootTime now) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace volador::worker
