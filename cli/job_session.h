// A command in the surroundings of a rank of a job, with the standard streams of this process.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/outcome.h"
#include "cli/render/terminal.h"

namespace volador::control {
class ClusterApi;
}

namespace volador::cli {

struct JobSessionOptions {
  std::string job;
  int rank = 0;
  std::vector<std::string> command;        // Empty: a shell.
  bool terminal = false;                   // Standard input and output are a terminal, and so are those of the command.
  bool waits = false;                      // Until the job runs and its setup has succeeded.
  bool input = false;                      // The command gets the standard input; always with a terminal.
  std::chrono::milliseconds wait{10'000};  // For output at a time; less than the timeout of the API.
};

// Runs the command until it ends; its exit code is that of the failure, which has no message then. SIGINT and SIGQUIT go
// to the command; SIGTERM and SIGHUP end it. A head that does not answer is asked again for a minute. The terminal's
// mode is restored in any case.
Outcome run_job_session(control::ClusterApi& api, const JobSessionOptions& options, const Terminal& terminal);

}  // namespace volador::cli
