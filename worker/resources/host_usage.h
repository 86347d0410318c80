// What the processes of hosts take: CPU, memory, calls.
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

// What process groups have taken since they began.
struct GroupUsage {
  double cpu_seconds = 0;
  int64_t memory_bytes = 0;  // Of their own (anonymous), now.
  double started_seconds = 0;  // When the leader did, after the machine's start.
};
// By leader; groups that are gone are left out. Milliseconds: it looks at every process. Below `root` lies proc/.
[[nodiscard]] std::map<int, GroupUsage> usage_of_groups(const std::set<int>& leaders, const std::filesystem::path& root = "/");
// Of one process alone, without what its ended children took; nullopt: it is gone.
[[nodiscard]] std::optional<GroupUsage> usage_of_process(int pid, const std::filesystem::path& root = "/");

// CPU cores that processes use, from the CPU time that they have taken. Pure: readings come with the call. One thread.
class CpuRates {
 public:
  static constexpr std::chrono::seconds kLeast{1};  // Between readings that are compared: CPU time comes in steps of 10 ms.

  // By pid, everything that is to be known later: processes that are missing are forgotten.
  void look(BootTime now, const std::map<int, GroupUsage>& usages);
  // Between the newest reading and the last one at least kLeast before it; nullopt: the process was not in that one.
  [[nodiscard]] std::optional<double> cores(int pid) const;

 private:
  struct Reading {
    BootTime at{};
    std::map<int, double> cpu_seconds;
  };
  Reading before_, newest_;
};

// What they took since the last look. Pure: readings come with the call. One thread.
class HostUsage {
 public:
  struct Host {
    int pid = 0;        // Leader of its group.
    std::string actor;  // Raw id.
  };

  // What a host says of its calls; the newest counts.
  void on_calls(int pid, const protocol::CallCount& calls) { calls_[pid] = calls; }
  // Rows of hosts that were there at the last look already; hosts that are gone are forgotten.
  std::vector<protocol::HostUsage> take(BootTime now, const std::vector<Host>& hosts, const std::map<int, GroupUsage>& groups);

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
