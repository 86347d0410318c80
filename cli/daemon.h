// Starting a process that outlives this one, and learning whether it came up.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "runtime/result.h"

namespace volador::cli {

struct DaemonOptions {
  std::string name;  // For messages: "head".
  std::chrono::milliseconds ready_timeout{30'000};
  std::filesystem::path
      stray_output;  // What is written to stdout and stderr outside of the daemon's own log ends here; appended.
  std::function<void(const std::string& text)> on_note = {};  // Of Starter::note, in the starting process.
};

struct Daemon {
  pid_t pid = 0;
  std::string report;  // What it said when it became ready.
};

// The daemon's line to who started it; any thread.
class Starter {
 public:
  virtual ~Starter() = default;
  virtual void ready(const std::string& report) = 0;  // Once; nothing is heard afterwards.
  virtual void note(const std::string& text) = 0;     // What goes on until then, for people.
};
// The daemon's life; gives its exit code.
using DaemonBody = std::function<int(Starter& starter)>;

// The exit code of a daemon that ended before it was ready, and what it wrote to stderr.
struct DaemonFailure {
  int exit_code = 1;
  Error error;
};

// Forks a process with a session of its own, its input and output detached from ours, no descriptor of ours open, and
// waits until it is ready. Make no thread before. Where it does not become ready in time it is killed.
[[nodiscard]] tl::expected<Daemon, DaemonFailure> start_daemon(const DaemonOptions& options, const DaemonBody& body);

}  // namespace volador::cli
