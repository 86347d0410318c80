// Control groups of host processes: one group per process with its limits, below one group of the worker. Writes to
// cgroup files wait for the kernel (moving a process: milliseconds), so they run on threads of this object.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/job_thread.h"
#include "runtime/net/io_loop.h"
#include "runtime/result.h"
#include "worker/hosts/cgroup_plan.h"

namespace volador::worker {

struct HostGroupOptions {
  std::string name;                  // Name of the worker's group: group_name().
  double cpus = 1;                   // CPUs of the node: all hosts together get this share of the CPU time.
  int64_t processes_max = 4096;      // Processes and threads of a host; 0: no limit.
  std::filesystem::path record;      // File with the folders of the worker's group, for remove_groups().
  std::filesystem::path root = "/";  // Contains proc/.
};

// Groups of one worker. Loop thread only, except where noted.
class HostGroups {
 public:
  // The group of one host process.
  struct Group {
    const std::string name;
    std::atomic<int64_t> memory_limit_bytes{0};  // 0: none.
    std::atomic<bool> process_limit_told{false};
  };
  using GroupPtr = std::shared_ptr<Group>;

  // How the processes of a group fared.
  struct End {
    bool out_of_memory = false;  // The kernel killed a process for the memory limit of the group.
    bool process_limit = false;  // A fork failed because of the limit.
  };
  struct Reading {
    std::vector<int> pids;
    std::optional<double> cpu_seconds;  // Since the process joined, with all ended processes.
    bool process_limit = false;
  };

  // Creates the worker's group. Blocks; any thread. kUnavailable: there is no usable hierarchy; the message says why
  // and how to allow it.
  [[nodiscard]] static Result<std::unique_ptr<HostGroups>> create(net::IoLoop& loop, HostGroupOptions options);
  // Ends all processes in the groups and removes the groups. No callback runs after it. Not on the loop.
  ~HostGroups();
  HostGroups(const HostGroups&) = delete;
  HostGroups& operator=(const HostGroups&) = delete;

  // What hosts do not get, each with its reason; any thread.
  const std::vector<std::string>& missing() const { return missing_; }

  // Limits for a host with these resources; 0: none was asked for.
  GroupLimits limits_for(int64_t memory_bytes, double cpus) const;
  // Creates a group and moves the process into it; `done` runs on the loop. The caller keeps the process from being
  // reaped until then, so that its pid stays its own. A failure is logged, and the process runs without the group.
  GroupPtr place(pid_t pid, const GroupLimits& limits, std::function<void()> done);
  // Changes the limits of a placed process; `done` as for place().
  void change(const GroupPtr& group, pid_t pid, const GroupLimits& limits, std::function<void()> done);
  // Kills what is in the group and removes it; `done` (may be empty) runs on the loop when the processes are gone, or
  // after kEndPatience.
  void end(GroupPtr group, std::function<void(const End&)> done);
  static constexpr std::chrono::seconds kEndPatience{10};

  // Reads a group's use; any thread, also after the end of this object.
  class Reader;
  [[nodiscard]] Reader reader() const;

  // Kills every process in the groups; blocks for microseconds. For the end of the worker.
  void kill_all();

 private:
  struct Files;
  struct Ending;
  void take_turn(const std::shared_ptr<Ending>& ending);
  HostGroups(net::IoLoop& loop, std::shared_ptr<const Files> files, HostGroupOptions options,
             std::vector<std::string> missing);

  const std::shared_ptr<const Files> files_;
  const HostGroupOptions options_;
  const std::vector<std::string> missing_;
  uint64_t last_ = 0;
  bool failure_told_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // Checked on the loop by results of the threads.
  JobThread placing_;
  JobThread ending_;  // May wait for processes that end slowly.
};

class HostGroups::Reader {
 public:
  Reading read(const Group& group) const;

 private:
  friend class HostGroups;
  explicit Reader(std::shared_ptr<const Files> files) : files_(std::move(files)) {}
  std::shared_ptr<const Files> files_;
};

// Ends the processes in the groups of a killed worker and removes its groups, which HostGroupOptions::record names.
// Blocks up to `patience`. Returns the number of processes.
size_t remove_groups(const std::filesystem::path& record, std::chrono::milliseconds patience);

}  // namespace volador::worker
