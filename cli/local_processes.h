// The heads and workers that run on this machine for this user, found by the files that name them.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/paths.h"
#include "runtime/process_file.h"

namespace volador::cli {

struct LocalProcess {
  enum class Role : uint8_t { kHead, kWorker };
  Role role = Role::kHead;
  std::string cluster;
  std::string node;  // Of a worker.
  ProcessRecord record;
  std::filesystem::path pid_file;
};

// "worker a (pid 4711)".
std::string describe(const LocalProcess& process);

// Every cluster that has a folder here, sorted.
std::vector<std::string> local_clusters(const Paths& paths);
// Those of one cluster that run, workers first; none where nothing runs.
std::vector<LocalProcess> running_processes(const Paths& paths, const std::string& cluster);

struct Stopped {
  LocalProcess process;
  bool killed = false;  // It did not end when asked to.
};

// Asks each to end, all workers first and then the head, and kills what has not ended after `patience`. Returns when
// all are gone. What a killed one could not take with it is for remove_leftovers.
std::vector<Stopped> stop_processes(const std::vector<LocalProcess>& processes, std::chrono::milliseconds patience);
// The head alone, so that programs and workers wait for its return; others of `processes` go on.
std::vector<Stopped> stop_for_restart(const std::vector<LocalProcess>& processes, std::chrono::milliseconds patience);

// What was found of a process that had ended without tidying up.
struct Leftover {
  LocalProcess::Role role = LocalProcess::Role::kHead;
  std::string node;            // Of a worker.
  pid_t pid = 0;               // Of the dead process; 0: not known.
  size_t processes_ended = 0;  // A worker's hosts that still ran.
};

// "what worker a (pid 4711) left when it was killed; 2 of its processes still ran".
std::string describe(const Leftover& left);

// Removes what dead heads and workers of one cluster left here: the hosts of workers, sockets, pid files, half-written
// files. Those that run or start are left alone, and so are other clusters. The error: what could not be removed.
[[nodiscard]] Result<std::vector<Leftover>> remove_leftovers(const Paths& paths, const std::string& cluster);

}  // namespace volador::cli
