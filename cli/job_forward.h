// A port of this machine that leads to a port of the machine of a rank of a job, over the head: each connection here is
// a connection there (StartCommandRequest.port).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/outcome.h"
#include "cli/render/terminal.h"

namespace volador::control {
class ClusterApi;
}

namespace volador::cli {

struct ForwardedPorts {
  uint16_t here = 0;  // 0: any that is free.
  uint16_t there = 0;
};
// "8888" is that port on both sides; "9000:8888" is HERE:THERE.
Result<ForwardedPorts> parse_forwarded_ports(const std::string& text);

struct JobForwardOptions {
  std::string job;
  int rank = 0;
  ForwardedPorts ports;
  std::vector<std::string> command;        // Runs in the rank meanwhile; empty: none.
  bool waits = false;                      // Until the job runs and its setup has succeeded.
  std::chrono::milliseconds wait{10'000};  // For output at a time; less than the timeout of the API.
};

// Listens on 127.0.0.1 until SIGINT, SIGTERM or SIGHUP, or until the job or the command has ended. Its exit code is that
// of the command, if there is one. A connection that cannot be made there is closed here, and a note says why.
Outcome run_job_forward(control::ClusterApi& api, const JobForwardOptions& options, const Terminal& terminal);

}  // namespace volador::cli
