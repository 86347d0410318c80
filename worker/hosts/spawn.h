// Starting a program with exactly the descriptors, environment and folder that it should have.
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

// Of this process.
[[nodiscard]] Environment own_environment();

struct SpawnRequest {
  std::string path;               // Executable; not searched for in PATH.
  std::vector<std::string> argv;  // Empty: path alone.
  Environment env = {};           // All of it.
  std::string cwd = {};           // Empty: as this process.
  int stdout_fd = -1;             // -1: /dev/null, as stdin always is.
  int stderr_fd = -1;
  std::vector<int> fds = {};  // Become 3, 4, … there; nothing else is inherited.
};

inline constexpr int kFirstPassedFd = 3;

// A child in a session of its own, with default signal handling. Blocks until the program is loaded.
// kInvalidArgument: it cannot be executed; the message names path and reason. kUnavailable: no process can be made
// (limits, memory).
[[nodiscard]] Result<pid_t> spawn(const SpawnRequest& request);

// What a program that ends soon prints (stdout and stderr together, at most 1 MiB) and its wait status. Kills it after
// `timeout`. Blocks; not on a loop's thread.
struct Output {
  std::string text;
  int wait_status = 0;
  bool timed_out = false;
};
[[nodiscard]] Result<Output> run_for_output(SpawnRequest request, std::chrono::milliseconds timeout);

}  // namespace volador::worker
