// Resource usage of hosts' processes: CPU, memory, calls.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/clock.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/host.pb.h"

namespace volador::worker {

// Usage of a process group since its start.
struct GroupUsage {
  double cpu_seconds = 0;
  int64_t memory_bytes = 0;    // Current anonymous memory.
  double started_seconds = 0;  // Start time of the leader, after the machine's boot.
};
// Reading of a leader's control group.
struct ControlGroupUsage {
  std::vector<int> pids;              // Its processes, also those that left the process group.
  std::optional<double> cpu_seconds;  // Sum over its processes, also ended ones.
};
// Returns usage by group leader; ended groups are omitted. Takes milliseconds: scans every process. `root` contains
// proc/. `control_groups`: by leader, for leaders that have one.
[[nodiscard]] std::map<int, GroupUsage> usage_of_groups(const std::set<int>& leaders,
                                                        const std::filesystem::path& root = "/",
                                                        const std::map<int, ControlGroupUsage>& control_groups = {});
// Returns the usage of one process without its ended children; nullopt: it is gone.
[[nodiscard]] std::optional<GroupUsage> usage_of_process(int pid, const std::filesystem::path& root = "/");

// CPU cores in use, from consumed CPU time. Pure: readings are arguments. One thread.
class CpuRates {
 public:
  static constexpr std::chrono::seconds kLeast{1};  // Between compared readings: CPU time has steps of 10 ms.

  // `usages`: by pid, all processes of interest; missing processes are forgotten.
  void look(BootTime now, const std::map<int, GroupUsage>& usages);
  // Returns the rate between the newest reading and the last one at least kLeast before it; nullopt: the process was
  // not in the earlier one.
  [[nodiscard]] std::optional<double> cores(int pid) const;

 private:
  struct Reading {
    BootTime at{};
    std::map<int, double> cpu_seconds;
  };
  Reading before_, newest_;
};

// Usage since the last take(). Pure: readings are arguments. One thread.
class HostUsage {
 public:
  struct Host {
    int pid = 0;        // Leader of its group.
    std::string actor;  // Raw id.
  };

  // Records a host's call statistics; the newest counts.
  void on_calls(int pid, const protocol::CallCount& calls) { calls_[pid] = calls; }
  // Returns rows of hosts that were present at the last call; ended hosts are forgotten.
  std::vector<protocol::HostUsage> take(BootTime now, const std::vector<Host>& hosts,
                                        const std::map<int, GroupUsage>& groups);

 private:
  struct Seen {
    BootTime at{};
    double cpu_seconds = 0;
    uint64_t calls = 0;
    uint64_t busy_ns = 0;
  };
  std::map<int, Seen> seen_;
  std::map<int, protocol::CallCount> calls_;
};

}  // namespace volador::worker
