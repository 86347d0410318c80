#include "worker/resources/node_resources.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "worker/hosts/cgroup.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;

constexpr double kCpusLeast = 0.01;
constexpr int64_t kNoLimit = int64_t{1} << 60;  // v1 represents no limit by a number near 2^63.
constexpr int kGpusMost = 1024;

int affinity_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));  // More than 1024 cores.
}

double busy_seconds(const fs::path& root) {
  const auto text = read_small_file(root / "proc/stat");
  if (!text) return 0;
  std::istringstream words(*text);
  std::string label;
  int64_t user = 0;
  int64_t nice = 0;
  int64_t system = 0;
  int64_t idle = 0;
  int64_t waiting = 0;
  int64_t irq = 0;
  int64_t soft = 0;
  words >> label >> user >> nice >> system >> idle >> waiting >> irq >> soft;
  return static_cast<double>(user + nice + system + irq + soft) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

bool is_index(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos && text.size() < 6;
}

}  // namespace

double discover_cpus(const fs::path& root, int cores) {
  double cpus = std::max(1, cores);
  for (const fs::path& folder : cgroup_folders(root, "")) {
    const auto text = read_small_file(folder / "cpu.max");  // "200000 100000" or "max 100000".
    if (!text) continue;
    std::istringstream words(*text);
    double quota = 0;
    double period = 0;
    if (words >> quota >> period && quota > 0 && period > 0) cpus = std::min(cpus, quota / period);
  }
  for (const fs::path& folder : cgroup_folders(root, "cpu")) {
    const auto quota = read_number(folder / "cpu.cfs_quota_us");
    const auto period = read_number(folder / "cpu.cfs_period_us");
    if (quota && period && *quota > 0 && *period > 0)
      cpus = std::min(cpus, static_cast<double>(*quota) / static_cast<double>(*period));
  }
  return std::max(kCpusLeast, std::floor(cpus * 100) / 100);
}

int64_t discover_memory(const fs::path& root) {
  int64_t memory = 0;
  if (const auto text = read_small_file(root / "proc/meminfo")) {
    std::istringstream words(*text);
    std::string label;
    int64_t kilobytes = 0;
    if (words >> label >> kilobytes && label == "MemTotal:") memory = kilobytes * 1024;
  }
  for (const char* controller : {"", "memory"}) {
    for (const fs::path& folder : cgroup_folders(root, controller)) {
      for (const char* file : {"memory.max", "memory.limit_in_bytes"}) {
        const auto limit = read_number(folder / file);
        if (limit && *limit > 0 && *limit < kNoLimit && (memory == 0 || *limit < memory)) memory = *limit;
      }
    }
  }
  return memory;
}

std::vector<GpuInfo> visible_gpus(const std::vector<GpuDevice>& devices,
                                  const std::optional<std::string>& cuda_visible_devices, std::optional<int> wanted) {
  std::vector<GpuInfo> gpus;
  const auto add = [&](size_t device, std::string name) {
    const GpuDevice& found = devices[device];
    gpus.push_back({.index = static_cast<int>(gpus.size()),
                    .uuid = found.uuid,
                    .model = found.model,
                    .memory_bytes = found.memory_bytes,
                    .visible_name = std::move(name)});
  };
  if (!cuda_visible_devices) {
    for (size_t i = 0; i < devices.size(); ++i) add(i, std::to_string(i));
  } else {
    std::istringstream entries(*cuda_visible_devices);
    for (std::string entry; std::getline(entries, entry, ',');) {
      entry.erase(std::remove(entry.begin(), entry.end(), ' '), entry.end());
      size_t match = devices.size();
      if (is_index(entry)) {
        match = std::min(devices.size(), static_cast<size_t>(std::atoi(entry.c_str())));
      } else if (entry.starts_with("GPU-")) {
        for (size_t i = 0; i < devices.size() && match == devices.size(); ++i) {
          if (devices[i].uuid.starts_with(entry)) match = i;
        }
      }
      if (match == devices.size()) break;
      add(match, entry);
    }
  }
  if (wanted) {
    const auto count = static_cast<size_t>(std::max(0, *wanted));
    if (gpus.size() > count) gpus.resize(count);
    while (gpus.size() < count) {
      const int index = static_cast<int>(gpus.size());
      gpus.push_back(
          {.index = index, .uuid = "", .model = "simulated", .memory_bytes = 0, .visible_name = std::to_string(index)});
    }
  }
  return gpus;
}

std::string cuda_visible_devices(const std::vector<GpuInfo>& gpus, const std::vector<int>& granted) {
  std::string out;
  for (const int index : granted) {
    for (const GpuInfo& gpu : gpus) {
      if (gpu.index != index) continue;
      if (!out.empty()) out += ',';
      out += gpu.visible_name;
    }
  }
  return out;
}

Result<NodeResources> discover(const ResourceOverrides& overrides) {
  NodeResources found;
  found.cpus = discover_cpus("/", affinity_cores());
  found.memory_bytes = discover_memory("/");
  if (overrides.cpus) {
    if (!std::isfinite(*overrides.cpus) || *overrides.cpus < 0 || *overrides.cpus > 1e6) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("--num-cpus: expected a number from 0 to 1000000, got {}", *overrides.cpus));
    }
    found.cpus = *overrides.cpus;
  }
  if (overrides.memory) {
    if (*overrides.memory < 0) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("--memory: expected bytes, at least 0, got {}", *overrides.memory));
    }
    found.memory_bytes = *overrides.memory;
  }
  if (overrides.gpus && (*overrides.gpus < 0 || *overrides.gpus > kGpusMost)) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("--num-gpus: expected a whole number from 0 to {}, got {}", kGpusMost, *overrides.gpus));
  }
  std::optional<std::string> visible;
  if (const char* text = std::getenv("CUDA_VISIBLE_DEVICES")) visible = text;
  found.gpus = visible_gpus(list_gpu_devices(), visible, overrides.gpus);
  return found;
}

Result<ResourceSet> total_of(const NodeResources& resources, const ResourceOverrides& overrides) {
  Resources wanted;
  wanted.cpus = resources.cpus;
  wanted.gpus = static_cast<double>(resources.gpus.size());
  wanted.memory = resources.memory_bytes;
  wanted.custom = overrides.custom;
  auto set = ResourceSet::from(wanted);
  if (!set) return make_error(set.error().code, "--resources: " + set.error().message);
  return set;
}

UsageSampler::UsageSampler(fs::path root) : root_(std::move(root)) {}

UsageSampler::Usage UsageSampler::sample(BootTime now) {
  Usage usage;
  const double busy = busy_seconds(root_);
  if (last_ && now > *last_) {
    usage.cpu_cores = std::max(0.0, (busy - last_busy_seconds_) / std::chrono::duration<double>(now - *last_).count());
  }
  last_ = now;
  last_busy_seconds_ = busy;
  if (!groups_at_ || now - *groups_at_ >= kGroupsEvery) {
    groups_at_ = now;
    groups_ = limited_groups(root_);
  }
  const auto levels = memory_levels(root_, groups_);
  const auto by_limit = [](const MemoryLevel& a, const MemoryLevel& b) { return a.limit_bytes < b.limit_bytes; };
  const auto by_share = [](const MemoryLevel& a, const MemoryLevel& b) { return a.share() < b.share(); };
  usage.memory = *std::min_element(levels.begin(), levels.end(), by_limit);
  usage.fullest_memory = *std::max_element(levels.begin(), levels.end(), by_share);
  return usage;
}

std::optional<uint64_t> memory_kills(const fs::path& root) {
  for (const fs::path& folder : cgroup_folders(root, "")) {
    if (const auto kills = read_keyed_number(folder / "memory.events", "oom_kill"))
      return static_cast<uint64_t>(*kills);
  }
  for (const fs::path& folder : cgroup_folders(root, "memory")) {
    if (const auto kills = read_keyed_number(folder / "memory.oom_control", "oom_kill"))
      return static_cast<uint64_t>(*kills);
  }
  return std::nullopt;
}

}  // namespace volador::worker
