// MachineMeter, HealthReader and GpuMeter on their own thread: a network file system or a driver may be slow or hang,
// which must not delay the node's leases.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/resources/gpu_meter.h"
#include "worker/resources/health_rules.h"
#include "worker/resources/machine_meter.h"

namespace volador::worker {

// Thread that measures the machine. Thread safe.
class MachineWatch {
 public:
  static constexpr std::chrono::seconds kEvery{2};
  static constexpr std::chrono::seconds kEveryWithGpus{1};
  static constexpr std::chrono::seconds kOldest{10};  // Older readings are not returned: a reading hangs.
  static constexpr std::chrono::seconds kInspectEvery{10};

  struct Reading {
    protocol::MachineUsage machine;
    std::vector<GpuMeter::Reading> gpus;
  };
  // A reading that has not ended.
  struct Waiting {
    BootTime since{};
    bool of_gpus = false;
  };
  struct Inspection {
    HealthSample sample;  // Without GPUs.
    std::vector<GpuMeter::Health> gpus;
  };

  // Starts the thread. `clock` outlives it. `card`: see HealthReader. `on_inspection` runs on the thread after each
  // inspection, until this object is destroyed; it must not block or call it.
  MachineWatch(const Clock& clock, std::vector<UsedFolder> folders, bool has_gpus, std::string card = {},
               std::function<void()> on_inspection = {});
  // Waits briefly for the current reading; a hanging one is detached.
  ~MachineWatch();
  MachineWatch(const MachineWatch&) = delete;
  MachineWatch& operator=(const MachineWatch&) = delete;

  // Returns the newest reading; nullopt: none yet, or too old.
  std::optional<Reading> newest(BootTime now) const;
  std::optional<Waiting> waiting() const;
  // The newest inspection, once; nullopt: none since the last call.
  std::optional<Inspection> take_inspection();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace volador::worker
