// `volador job-rsh HOST COMMAND…`: stands for ssh and rsh in a job on several nodes.
#pragma once

#include <string>
#include <vector>

namespace volador::jobs {

// Runs a command on a node of the job whose folder VOLADOR_JOB_DIR names; passes the standard streams and signals.
// Returns the exit code of the command; 255: it could not be started or its node was lost, and stderr says why. A host
// outside the job is left to the next ssh in PATH.
int run_job_rsh(const std::vector<std::string>& words);

}  // namespace volador::jobs
