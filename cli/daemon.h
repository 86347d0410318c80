// Starts a process that outlives this one, and reports whether it became ready.
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
      stray_output;  // File to which output to stdout and stderr outside of the daemon's own log is appended.
  std::function<void(const std::string& text)> on_note = {};  // Receives Starter::note() in the starting process.
};

struct Daemon {
  pid_t pid = 0;
  std::string report;  // Report of the daemon when it became ready.
};

// Channel from the daemon to the starting process; thread-safe.
class Starter {
 public:
  virtual ~Starter() = default;
  virtual void ready(const std::string& report) = 0;  // Call once; later calls and notes are ignored.
  virtual void note(const std::string& text) = 0;     // Progress messages for the user, before ready().
};
// Main function of the daemon; returns its exit code.
using DaemonBody = std::function<int(Starter& starter)>;

// Exit code and stderr output of a daemon that ended before it was ready.
struct DaemonFailure {
  int exit_code = 1;
  Error error;
};

// Forks a process in a new session, with input and output detached and none of our descriptors open, and waits until it
// is ready. No thread may exist before the call. The process is killed if it is not ready in time.
[[nodiscard]] tl::expected<Daemon, DaemonFailure> start_daemon(const DaemonOptions& options, const DaemonBody& body);

}  // namespace volador::cli
