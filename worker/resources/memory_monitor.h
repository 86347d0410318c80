// Ends the largest actor before memory runs out and the kernel's OOM killer chooses a process.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/language/reason.h"

namespace volador::worker {

// Memory usage of the machine, or of a limited control group of this process.
struct MemoryLevel {
  int64_t used_bytes = 0;  // Without memory that the kernel can reclaim at once.
  int64_t limit_bytes = 0;
  double share() const {
    return limit_bytes > 0 ? static_cast<double>(used_bytes) / static_cast<double>(limit_bytes) : 0;
  }
};
// A control group of this process with a limit below the machine's memory.
struct LimitedGroup {
  std::filesystem::path folder;
  size_t version = 0;  // Index into the table of file names.
  int64_t limit_bytes = 0;
};
// `root` contains proc/ and sys/. Scans all groups: not for every sample.
[[nodiscard]] std::vector<LimitedGroup> limited_groups(const std::filesystem::path& root = "/");
// Returns the machine, then the groups. A removed group is omitted.
[[nodiscard]] std::vector<MemoryLevel> memory_levels(const std::filesystem::path& root,
                                                     const std::vector<LimitedGroup>& groups);
[[nodiscard]] std::vector<MemoryLevel> memory_levels(const std::filesystem::path& root = "/");

// Selects the host to end. Pure: no clock or I/O.
class MemoryMonitor {
 public:
  static constexpr auto kSettle = std::chrono::seconds(1);  // Pause after an end.
  static constexpr double kWorthwhile = 0.01;               // Fraction of the limit; smaller hosts are not ended.

  struct Host {
    HostId id;
    int64_t bytes = 0;
    bool retriable = false;  // It will be recreated: by its restarts, or as a trial or task.
  };
  struct Verdict {
    HostId host;
    Reason why;
  };

  // `threshold`: fraction of the limit in use, 0 to 1; 0: never.
  explicit MemoryMonitor(double threshold) : threshold_(threshold) {}

  // Whether decide() is worthwhile: usage exceeds the threshold, and the last end has taken effect.
  [[nodiscard]] bool is_due(BootTime now, const MemoryLevel& level) const;
  // Returns the largest retriable host, otherwise the largest one. Nothing: the memory is not used by hosts.
  [[nodiscard]] std::optional<Verdict> decide(BootTime now, const MemoryLevel& level, const std::vector<Host>& hosts,
                                              const std::string& node_name);

 private:
  const double threshold_;
  std::optional<BootTime> last_;
};

}  // namespace volador::worker
