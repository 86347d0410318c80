// The environment, files and command with which a node starts a run of a trial.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/result.h"

namespace volador::v1 {
class StartTrialRunReply;
}

namespace volador::experiments {

// Variable of StartTrialRunReply.env, for master.pem: the programs get DET_MASTER_CERT_FILE instead.
inline constexpr const char* kMasterAuthority = "VOLADOR_MASTER_AUTHORITY";

// What only the node knows.
struct TrialNode {
  std::string address;             // The head's, "host:port".
  std::string token;               // The trial's, for its processes.
  std::string job;                 // "job-7".
  std::string name;                // The node's.
  int rank = 0;                    // Among the nodes of the job.
  std::vector<std::string> hosts;  // All nodes of the job, by rank; at least one.
  std::string chief;               // Address of the first node where its host is only a name; empty: its host.
  int port = 0;                    // Free on the first node, for the processes' rendezvous.
  std::string directory;           // In which the code is, and the trial starts.
  std::string info_folder;         // Gets TrialLaunch::files.
  std::string shims;               // Folder with the Python package `determined`; empty: not installed.
  std::string python_path;         // PYTHONPATH that the job has.
  std::string visible_gpus;        // CUDA_VISIBLE_DEVICES that the job has.
  bool has_startup_hook = false;   // `directory` has startup-hook.sh.
};

struct TrialLaunch {
  std::map<std::string, std::string> env;    // Added to the job's own variables.
  std::map<std::string, std::string> files;  // Name in info_folder, and content; they have secrets.
  std::vector<std::string> command;          // Replaces the process.
  std::vector<std::string> left_out;         // Variables that are too long for a process.
};

// A trial class is started by `python3 -m volador.determined --trial`, in several processes by torch.distributed.run.
// An entrypoint of one text is a command line for bash; a list is a program with its arguments. With a startup hook
// bash reads it first, and the first command of it that fails ends the trial with its exit code.
//
// Files: rendezvous.json, trial.json, resources.json and cluster.json as Determined's programs know them, config.json
// (the complete configuration), storage.json (its checkpoint_storage), and master.pem, the authority of the dashboard's
// certificate, where the head names one.
//
// kInvalidArgument: the rank is not one of the hosts. kInternal: the reply has neither a class nor a command, or texts
// in it that are no JSON.
[[nodiscard]] Result<TrialLaunch> make_trial_launch(const v1::StartTrialRunReply& run, const TrialNode& node);

}  // namespace volador::experiments
