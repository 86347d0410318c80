#include "worker/memory_monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "runtime/resources.h"
#include "worker/cgroup.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;

// The number of kB behind `key` in lines "Key:   number kB".
std::optional<int64_t> kilobytes(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    std::istringstream words(line.substr(key.size()));
    int64_t value = 0;
    if (words >> value) return value;
  }
  return std::nullopt;
}

MemoryLevel machine_memory(const fs::path& root) {
  const auto text = read_small_file(root / "proc/meminfo");
  if (!text) return {};
  const int64_t total = kilobytes(*text, "MemTotal:").value_or(0);
  const int64_t available = kilobytes(*text, "MemAvailable:").value_or(total);
  return {.used_bytes = std::max<int64_t>(0, total - available) * 1024, .limit_bytes = total * 1024};
}

struct LevelFiles {
  const char* controller;
  const char* limit;
  const char* used;
  const char* reclaimable[2];  // In memory.stat: pages of files, which the kernel takes back before it ends anybody.
};
constexpr LevelFiles kVersions[] = {
    {"", "memory.max", "memory.current", {"inactive_file", "active_file"}},
    {"memory", "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}}};

}  // namespace

std::vector<MemoryLevel> memory_levels(const fs::path& root) {
  const MemoryLevel machine = machine_memory(root);
  std::vector<MemoryLevel> levels{machine};
  for (const LevelFiles& files : kVersions) {
    for (const fs::path& folder : cgroup_folders(root, files.controller)) {
      const auto limit = read_number(folder / files.limit);
      const auto used = read_number(folder / files.used);
      if (!limit || !used || *limit <= 0 || *limit >= machine.limit_bytes)
        continue;  // v1 says "none" by a huge number.
      int64_t reclaimable = 0;
      for (const char* key : files.reclaimable)
        reclaimable += read_keyed_number(folder / "memory.stat", key).value_or(0);
      levels.push_back({.used_bytes = std::max<int64_t>(0, *used - reclaimable), .limit_bytes = *limit});
    }
  }
  return levels;
}

bool MemoryMonitor::is_due(BootTime now, const MemoryLevel& level) const {
  return threshold_ > 0 && level.share() >= threshold_ && (!last_ || now - *last_ >= kSettle);
}

std::optional<MemoryMonitor::Verdict> MemoryMonitor::decide(BootTime now, const MemoryLevel& level,
                                                            const std::vector<Host>& hosts,
                                                            const std::string& node_name) {
  if (!is_due(now, level)) return std::nullopt;
  const auto least = static_cast<int64_t>(kWorthwhile * static_cast<double>(level.limit_bytes));
  const Host* chosen = nullptr;
  for (const Host& host : hosts) {
    if (host.bytes < least) continue;
    if (chosen == nullptr || std::pair(host.retriable, host.bytes) > std::pair(chosen->retriable, chosen->bytes)) {
      chosen = &host;
    }
  }
  if (chosen == nullptr) return std::nullopt;
  last_ = now;
  return Verdict{chosen->id,
                 fmt::format("node {} had {:.0f} % of its {} in use and ended the largest actor{} ({}) before the "
                             "kernel would have; ask for memory, .resources({{.memory = …}}), so that fewer run at a "
                             "time, or start the node with another --memory-threshold",
                             node_name, 100 * level.share(), format_bytes(level.limit_bytes),
                             chosen->retriable ? " that can be made again" : "", format_bytes(chosen->bytes))};
}

}  // namespace volador::worker
