// MachineMeter and GpuMeter on their own thread: a network file system or a driver may be slow or hang, which must not
// delay the node's leases.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "worker/resources/gpu_meter.h"
#include "worker/resources/machine_meter.h"

namespace volador::worker {

// Thread that measures the machine. Thread safe.
class MachineWatch {
 public:
  static constexpr std::chrono::seconds kEvery{2};
  static constexpr std::chrono::seconds kEveryWithGpus{1};
  static constexpr std::chrono::seconds kOldest{10};  // Older readings are not returned: a reading hangs.

  struct Reading {
    protocol::MachineUsage machine;
    std::vector<GpuMeter::Reading> gpus;
  };

  // Starts the thread. `clock` outlives it.
  MachineWatch(const Clock& clock, std::vector<UsedFolder> folders, bool has_gpus);
  // Waits briefly for the current reading; a hanging one is detached.
  ~MachineWatch();
  MachineWatch(const MachineWatch&) = delete;
  MachineWatch& operator=(const MachineWatch&) = delete;

  // Returns the newest reading; nullopt: none yet, or too old.
  std::optional<Reading> newest(BootTime now) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace volador::worker
