#include "worker/resources/memory_monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "runtime/resources.h"
#include "worker/hosts/cgroup.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;

// Returns the number for `key` in lines "Key:   number kB".
std::optional<int64_t> kilobytes(std::string_view text, std::string_view key) {
  for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at != 0 && text[at - 1] != '\n') continue;
    const size_t first = text.find_first_not_of(' ', at + key.size());
    int64_t value = 0;
    if (first == std::string_view::npos ||
        std::from_chars(text.data() + first, text.data() + text.size(), value).ec != std::errc())
      return std::nullopt;
    return value;
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
  const char* reclaimable[2];  // In memory.stat: file pages, which the kernel reclaims before killing.
};
constexpr LevelFiles kVersions[] = {
    {"", "memory.max", "memory.current", {"inactive_file", "active_file"}},
    {"memory", "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}}};

}  // namespace

std::vector<LimitedGroup> limited_groups(const fs::path& root) {
  const int64_t machine = machine_memory(root).limit_bytes;
  std::vector<LimitedGroup> groups;
  for (size_t version = 0; version < std::size(kVersions); ++version) {
    for (fs::path& folder : cgroup_folders(root, kVersions[version].controller)) {
      const auto limit = read_number(folder / kVersions[version].limit);
      if (!limit || *limit <= 0 || *limit >= machine) continue;  // v1 represents no limit by a huge number.
      groups.push_back({.folder = std::move(folder), .version = version, .limit_bytes = *limit});
    }
  }
  return groups;
}

std::vector<MemoryLevel> memory_levels(const fs::path& root, const std::vector<LimitedGroup>& groups) {
  std::vector<MemoryLevel> levels{machine_memory(root)};
  for (const LimitedGroup& group : groups) {
    const LevelFiles& files = kVersions[group.version];
    const auto used = read_number(group.folder / files.used);
    if (!used) continue;
    int64_t reclaimable = 0;
    for (const char* key : files.reclaimable)
      reclaimable += read_keyed_number(group.folder / "memory.stat", key).value_or(0);
    levels.push_back({.used_bytes = std::max<int64_t>(0, *used - reclaimable), .limit_bytes = group.limit_bytes});
  }
  return levels;
}

std::vector<MemoryLevel> memory_levels(const fs::path& root) { return memory_levels(root, limited_groups(root)); }

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
  return Verdict{chosen->id, reason("cause.memory_used_up", node_name, fmt::format("{:.0f}", 100 * level.share()),
                                    format_bytes(level.limit_bytes),
                                    chosen->retriable ? reason("cause.largest_again") : reason("cause.largest"),
                                    format_bytes(chosen->bytes))};
}

}  // namespace volador::worker
