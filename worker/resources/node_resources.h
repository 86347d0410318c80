// What this node has: CPUs, memory and GPUs, as far as this process may use them.
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

struct GpuInfo {
  int index = 0;      // Among this node's GPUs, 0, 1, …: what the head grants.
  std::string uuid;   // Empty for a simulated one.
  std::string model;  // "simulated" for a simulated one.
  int64_t memory_bytes = 0;
  std::string visible_name;  // What CUDA_VISIBLE_DEVICES must say for it in a host.

  bool operator==(const GpuInfo&) const = default;
};

struct NodeResources {
  double cpus = 0;           // Cores: the least of affinity and cgroup quota; at least 0.01.
  int64_t memory_bytes = 0;  // The least of the machine's and the cgroups' limits.
  std::vector<GpuInfo> gpus;
};

// Below `root` lie proc/ and sys/ ("/" but for tests). `cores`: of the scheduler's affinity mask.
// cgroup v2 and v1 both count, every level from this process's group upwards. What cannot be read sets no limit.
[[nodiscard]] double discover_cpus(const std::filesystem::path& root, int cores);
[[nodiscard]] int64_t discover_memory(const std::filesystem::path& root);

// One GPU as the driver lists it.
struct GpuDevice {
  std::string uuid;
  std::string model;
  int64_t memory_bytes = 0;
};
// By NVML (libnvidia-ml.so.1, opened when it is there); empty without a driver. Milliseconds.
[[nodiscard]] std::vector<GpuDevice> list_gpu_devices();

// Which of the devices this process may use by its own CUDA_VISIBLE_DEVICES (nullopt: all), numbered from 0 in that
// order. Entries are indices or UUIDs (or the start of one); the first that names no device ends the list, as CUDA
// does. `wanted` (--num-gpus) keeps the first ones, or adds simulated ones.
[[nodiscard]] std::vector<GpuInfo> visible_gpus(const std::vector<GpuDevice>& devices,
                                                const std::optional<std::string>& cuda_visible_devices,
                                                std::optional<int> wanted);

// CUDA_VISIBLE_DEVICES of a host that was granted these indices; "" for none. Unknown indices are left out.
[[nodiscard]] std::string cuda_visible_devices(const std::vector<GpuInfo>& gpus, const std::vector<int>& granted);

// The real ones of this process with the user's settings.
// kInvalidArgument: a setting is out of range or a custom name is bad; names it.
[[nodiscard]] Result<NodeResources> discover(const ResourceOverrides& overrides);
[[nodiscard]] Result<ResourceSet> total_of(const NodeResources& resources, const ResourceOverrides& overrides);

// CPU and memory in use on this machine (or in this container), a few µs a sample.
class UsageSampler {
 public:
  struct Usage {
    double cpu_cores = 0;  // Since the last sample; 0 for the first.
    MemoryLevel memory;     // Of this node: the least limit.
    MemoryLevel fullest_memory;
  };

  static constexpr std::chrono::seconds kGroupsEvery{10};  // A limit that is set meanwhile counts from then on.

  explicit UsageSampler(std::filesystem::path root = "/");
  Usage sample(BootTime now);

 private:
  std::filesystem::path root_;
  std::vector<LimitedGroup> groups_;
  std::optional<BootTime> groups_at_;
  std::optional<BootTime> last_;
  double last_busy_seconds_ = 0;
};

// How often the kernel ended a process of this cgroup for want of memory (v2 memory.events or v1 memory.oom_control of
// this process's group); nullopt where it does not tell.
[[nodiscard]] std::optional<uint64_t> memory_kills(const std::filesystem::path& root = "/");

}  // namespace volador::worker
