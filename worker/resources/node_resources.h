// CPUs, memory and GPUs of this node that are available to this process.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/clock.h"
#include "runtime/resources.h"
#include "runtime/result.h"
#include "worker/resources/memory_monitor.h"
#include "worker/shell/worker_process.h"

namespace volador::worker {

// A GPU that the node offers.
struct GpuInfo {
  int index = 0;      // Index among this node's GPUs from 0, as granted by the head.
  std::string uuid;   // Empty for a simulated GPU.
  std::string model;  // "simulated" for a simulated GPU.
  int64_t memory_bytes = 0;
  std::string visible_name;  // Value for CUDA_VISIBLE_DEVICES in a host.

  bool operator==(const GpuInfo&) const = default;
};

// Discovered resources of the node.
struct NodeResources {
  double cpus = 0;           // Cores: the minimum of affinity and cgroup quota; at least 0.01.
  int64_t memory_bytes = 0;  // The minimum of the machine's and the cgroups' limits.
  std::vector<GpuInfo> gpus;
};

// `root` contains proc/ and sys/ ("/" except in tests). `cores`: of the scheduler's affinity mask. Considers cgroup v2
// and v1, every level from this process's group upwards. Unreadable files set no limit.
[[nodiscard]] double discover_cpus(const std::filesystem::path& root, int cores);
[[nodiscard]] int64_t discover_memory(const std::filesystem::path& root);

// A GPU as listed by the driver.
struct GpuDevice {
  std::string uuid;
  std::string model;
  int64_t memory_bytes = 0;
};
// Uses NVML (libnvidia-ml.so.1, opened at run time); empty without a driver. Takes milliseconds.
[[nodiscard]] std::vector<GpuDevice> list_gpu_devices();

// Returns the devices available by this process's CUDA_VISIBLE_DEVICES (nullopt: all), numbered from 0 in that order.
// Entries are indices or UUIDs (or prefixes); the first entry without a device ends the list, as in CUDA. `wanted`
// (--num-gpus) truncates the list or adds simulated GPUs.
[[nodiscard]] std::vector<GpuInfo> visible_gpus(const std::vector<GpuDevice>& devices,
                                                const std::optional<std::string>& cuda_visible_devices,
                                                std::optional<int> wanted);

// Returns CUDA_VISIBLE_DEVICES of a host with these granted indices; "" for none. Unknown indices are omitted.
[[nodiscard]] std::string cuda_visible_devices(const std::vector<GpuInfo>& gpus, const std::vector<int>& granted);

// Discovers this process's resources and applies the user's settings. kInvalidArgument: a setting is out of range or a
// custom name is invalid; names it.
[[nodiscard]] Result<NodeResources> discover(const ResourceOverrides& overrides);
[[nodiscard]] Result<ResourceSet> total_of(const NodeResources& resources, const ResourceOverrides& overrides);

// CPU and memory in use on this machine (or in this container), a few µs per sample.
class UsageSampler {
 public:
  struct Usage {
    double cpu_cores = 0;  // Since the last sample; 0 for the first.
    MemoryLevel memory;    // The level with the lowest limit.
    MemoryLevel fullest_memory;
  };

  static constexpr std::chrono::seconds kGroupsEvery{10};  // Interval for detecting changed limits.

  explicit UsageSampler(std::filesystem::path root = "/");
  Usage sample(BootTime now);

 private:
  std::filesystem::path root_;
  std::vector<LimitedGroup> groups_;
  std::optional<BootTime> groups_at_;
  std::optional<BootTime> last_;
  double last_busy_seconds_ = 0;
};

// Returns how often the kernel's OOM killer ended a process of this cgroup (v2 memory.events or v1 memory.oom_control
// of this process's group); nullopt if unavailable.
[[nodiscard]] std::optional<uint64_t> memory_kills(const std::filesystem::path& root = "/");

}  // namespace volador::worker
