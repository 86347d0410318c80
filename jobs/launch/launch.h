// Launch modes of a job: the command, environment and files with which each node starts a distributed program.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"

namespace volador::jobs {

// How the program on several nodes is started.
//   single      each node runs the command as it is
//   torch       each node runs the command under torch.distributed.launch
//   torchrun    each node runs the command under torch.distributed.run with a static rendezvous
//   horovod     node 0 runs the command under mpirun, which starts the processes on all nodes
//   mpi         as horovod
//   deepspeed   node 0 runs the command, a DeepSpeed launcher that starts the processes on all nodes
//   tensorflow  each node runs the command as it is, with its role in TF_CONFIG
enum class LaunchMode : uint8_t { kSingle, kTorch, kTorchrun, kHorovod, kMpi, kDeepSpeed, kTensorFlow };

// "single", "torch" and so on.
std::string_view to_string(LaunchMode mode);
// The inverse of to_string. kInvalidArgument: there is no such mode; the message has the value and all modes.
Result<LaunchMode> parse_launch_mode(std::string_view text);

struct LaunchRequest {
  LaunchMode mode = LaunchMode::kSingle;
  std::vector<std::string> command;  // The user's command; see check_command.
  int slots = 1;                     // GPUs of each node, at least 1; a node without GPUs has 1.
  int rank = 0;                      // This node's number, 0 to nodes - 1.
  std::vector<std::string> hosts;    // Name or address of each rank's node, in the order of ranks; at least one.
  std::string master_addr = {};      // Address of the first node where its host is only a name. Empty: its host.
  int parameter_servers = 0;         // Only for tensorflow: the first nodes; less than all. 0: all nodes are workers.
  int master_port = 2222;            // 1 to 65535. For tensorflow, the port of the first rank of each host.
  int shared_port = 2223;            // For tensorflow, the port of the second rank of a host; the next ones follow.
  std::string file_root;             // Absolute path, inside the job, of the folder with Launch::files.
};

// What one node needs to start.
struct Launch {
  // Empty: the node starts nothing of its own and waits for remote starts by rank 0.
  std::vector<std::string> command;
  std::map<std::string, std::string> env;    // Added to the job's own variables.
  std::map<std::string, std::string> files;  // Path relative to file_root, and content.
};

// Environment of all modes: VOLADOR_JOB_RANK, VOLADOR_JOB_NODES, VOLADOR_JOB_HOSTS (separated by commas), SLOTS. For
// torch, torchrun, deepspeed and single on several nodes also MASTER_ADDR, MASTER_PORT, WORLD_SIZE (number of nodes)
// and RANK (of the node).
//
// torch and torchrun change only commands that start with python or python3, in any folder, and do not mention
// torch.distributed.launch or torch.distributed.run. Options of the interpreter stay with the interpreter that runs the
// launcher. horovod and mpi add mpirun, of OpenMPI, unless the command has mpirun or mpiexec as a word.
//
// deepspeed adds --hostfile behind a first word `deepspeed`, unless file_root is /job, where DeepSpeed looks for it; a
// --hostfile of the command comes later and counts.
//
// kInvalidArgument: a field is out of range, check_command rejects the command, or torch or torchrun cannot start it
// (python without a script or module). The message names the field, the value and the rule.
Result<Launch> make_launch(const LaunchRequest& request);

}  // namespace volador::jobs
