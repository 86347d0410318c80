// Heads and workers of this user on this machine, found by their pid files.
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
  std::string node;  // Worker only.
  ProcessRecord record;
  std::filesystem::path pid_file;
};

// Returns "worker a (pid 4711)".
std::string describe(const LocalProcess& process);

// Returns the running processes of one cluster, workers first.
std::vector<LocalProcess> running_processes(const Paths& paths, const std::string& cluster);

struct Stopped {
  LocalProcess process;
  bool killed = false;  // It did not exit gracefully.
};

// Sends a stop request to each process, first all workers and then the head, and kills those that have not ended after
// `patience`. Returns when all have exited. remove_leftovers() cleans up after killed ones.
std::vector<Stopped> stop_processes(const std::vector<LocalProcess>& processes, std::chrono::milliseconds patience);
// Stops only the head, so that programs and workers wait for it to return; other `processes` continue.
std::vector<Stopped> stop_for_restart(const std::vector<LocalProcess>& processes, std::chrono::milliseconds patience);

// Remains of a process that ended without cleaning up.
struct Leftover {
  LocalProcess::Role role = LocalProcess::Role::kHead;
  std::string node;            // Worker only.
  pid_t pid = 0;               // Pid of the dead process; 0: unknown.
  size_t processes_ended = 0;  // Hosts of a worker that were still running.
};

// Returns "what worker a (pid 4711) left when it was killed; 2 of its processes still ran".
std::string describe(const Leftover& left);

// Removes the remains of dead heads and workers of one cluster: hosts of workers, sockets, pid files, partial files.
// Running and starting processes and other clusters are not affected. On error, names what could not be removed.
[[nodiscard]] Result<std::vector<Leftover>> remove_leftovers(const Paths& paths, const std::string& cluster);

}  // namespace volador::cli
