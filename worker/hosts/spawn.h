// Starts a program with exactly the given descriptors, environment and folder.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::worker {

using Environment = std::map<std::string, std::string>;

// Environment of this process.
[[nodiscard]] Environment own_environment();

// Program, arguments and descriptors of a child process.
struct SpawnRequest {
  std::string path;               // Executable; not searched for in PATH.
  std::vector<std::string> argv;  // Empty: path alone.
  Environment env = {};           // The whole environment.
  std::string cwd = {};           // Empty: this process's directory.
  int stdout_fd = -1;             // -1: /dev/null, as for stdin.
  int stderr_fd = -1;
  std::vector<int> fds = {};  // Become 3, 4, … in the child; nothing else is inherited.
};

inline constexpr int kFirstPassedFd = 3;

// Starts a child in its own session with default signal handling. Blocks until the program is loaded. kInvalidArgument:
// it cannot be executed; the message names path and reason. kUnavailable: no process can be created (limits, memory).
[[nodiscard]] Result<pid_t> spawn(const SpawnRequest& request);

// Runs a short program and returns its output (stdout and stderr, at most 1 MiB) and wait status. Kills it after
// `timeout`. Blocks; not on a loop's thread.
struct Output {
  std::string text;
  int wait_status = 0;
  bool timed_out = false;
};
[[nodiscard]] Result<Output> run_for_output(SpawnRequest request, std::chrono::milliseconds timeout);

}  // namespace volador::worker
