// Ends the actor that takes most before the kernel, which would choose badly and say nothing, has to end something.
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

// The machine, or a control group of this process with a limit of its own.
struct MemoryLevel {
  int64_t used_bytes = 0;  // Without what the kernel can take back at once.
  int64_t limit_bytes = 0;
  double share() const {
    return limit_bytes > 0 ? static_cast<double>(used_bytes) / static_cast<double>(limit_bytes) : 0;
  }
};
// A control group of this process that has a limit below the machine's memory.
struct LimitedGroup {
  std::filesystem::path folder;
  size_t version = 0;  // Index of the names of its files.
  int64_t limit_bytes = 0;
};
// Below `root` lie proc/ and sys/. Looks through all groups: not for every sample.
[[nodiscard]] std::vector<LimitedGroup> limited_groups(const std::filesystem::path& root = "/");
// The machine, then the groups. A group that is gone is left out.
[[nodiscard]] std::vector<MemoryLevel> memory_levels(const std::filesystem::path& root, const std::vector<LimitedGroup>& groups);
[[nodiscard]] std::vector<MemoryLevel> memory_levels(const std::filesystem::path& root = "/");

// Which host is to end. Pure: no clock or I/O.
class MemoryMonitor {
 public:
  static constexpr auto kSettle = std::chrono::seconds(1);  // After an end, before the next one.
  static constexpr double kWorthwhile = 0.01;               // Of the limit: who holds less is not ended.

  struct Host {
    HostId id;
    int64_t bytes = 0;
    bool retriable = false;  // Somebody makes it again: by its restarts, or as a trial or task.
  };
  struct Verdict {
    HostId host;
    Reason why;
  };

  // `threshold`: share of the limit in use, 0 to 1; 0: never.
  explicit MemoryMonitor(double threshold) : threshold_(threshold) {}

  // Whether decide() is worth its cost: enough is in use, and the last end has had its effect.
  [[nodiscard]] bool is_due(BootTime now, const MemoryLevel& level) const;
  // The largest host that can be made again, else the largest one. None: others than our hosts take the memory.
  [[nodiscard]] std::optional<Verdict> decide(BootTime now, const MemoryLevel& level, const std::vector<Host>& hosts,
                                              const std::string& node_name);

 private:
  const double threshold_;
  std::optional<BootTime> last_;
};

}  // namespace volador::worker
