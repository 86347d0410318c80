// The actor that runs one rank of a job: it unpacks the code folder, runs the setup and then the command, and ends with
// the exit code of the command. The output of both is the output of the actor.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/log_policy.h"
#include "jobs/remote/remote_commands.h"
#include "runtime/actor/actor_class.h"
#include "runtime/actor/deferred.h"
#include "runtime/serialize/codec.h"

namespace volador::jobs {

// What one rank runs.
struct CommandStart {
  std::string job;  // "job-7".
  int32_t rank = 0;
  std::vector<std::string> command;        // Empty: the rank waits until it is ended, as remote starts come by rank 0.
  std::string setup;                       // For bash; runs first. Empty: none.
  std::map<std::string, std::string> env;  // In addition to the environment of the worker.
  std::string directory;                   // Working directory; empty: the code folder, else a folder of the job.
  bool isolated = false;                   // Runs in namespaces of its own (jobs/sandbox).
  std::vector<std::string> mounts;         // For an isolated job: "/source:/target:ro".
  int64_t shm_bytes = 0;                   // For an isolated job: size of /dev/shm; 0: 4 GiB.
  std::map<std::string, std::string> files;  // Written to the folder VOLADOR_JOB_DIR before the start: name -> content.
  int stop_signal = 15;                      // Asks the command to end.
  std::string environment;                   // See JobSpec.environment; empty: that of the node.
  // For a job on several nodes, by rank: the name by which the command knows the node ("server2"), the id of its actor
  // in hex, the name of the node in the cluster, and its address, empty if unknown.
  std::vector<std::string> peer_names;
  std::vector<std::string> peer_actors;
  std::vector<std::string> peer_nodes;
  std::vector<std::string> peer_addresses;
  std::string output;              // Folder that is created before the start; empty: none.
  std::vector<LogRule> log_rules;  // From the job's log policies.
  std::string teardown;            // For bash; runs after the command, however that ended. Empty: none.
  bool kept = false;               // After a failure the rank stays for commands of users until it is ended.
};
VOLADOR_FIELDS(CommandStart, job, rank, command, setup, env, directory, isolated, mounts, shm_bytes, files, stop_signal,
               environment, peer_names, peer_actors, peer_nodes, peer_addresses, output, log_rules, teardown, kept);

// Answers to the head, which runs commands for users: how it went (a code of ErrorCode; 0: well) and a message.
struct CommandAnswer {
  int32_t code = 0;
  std::string message;
};
VOLADOR_FIELDS(CommandAnswer, code, message);

// What a command of a user wrote since the last time.
struct CommandOutput {
  bool known = false;  // There is such a command.
  Bytes output;
  Bytes error;
  bool ended = false;
  int32_t exit_code = 0;
};
VOLADOR_FIELDS(CommandOutput, known, output, error, ended, exit_code);

// What a user gives a command, in this order.
struct CommandInput {
  std::string id;
  Bytes input;
  bool end = false;    // Its standard input ends.
  int32_t signal = 0;  // 0: none.
  int32_t rows = 0;    // New size of its terminal; 0: unchanged.
  int32_t columns = 0;
  bool close = false;  // Its caller is gone.
};
VOLADOR_FIELDS(CommandInput, id, input, end, signal, rows, columns, close);

CommandAnswer answer_of(const Result<void>& result);
// What events of RemoteCommands::take() say; without any there is no such command.
CommandOutput output_of(std::vector<RemoteEvent> events);
CommandAnswer give_input(RemoteCommands& commands, CommandInput input);

class Command {
 public:
  // Returns when the process has started or has failed to; a thread of the actor waits for its end.
  // Throws kInvalidArgument: the directory does not exist on this node, or the archive is damaged.
  explicit Command(CommandStart start);
  // Sends SIGTERM to the processes of the command and waits until they have ended. The worker kills them when the
  // graceful time is over.
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // The process id of the command; 0: it has not started.
  int32_t pid();

  // For the other ranks of the job; see RemoteCommands. No method waits.
  // Answered when the setup of this rank has succeeded.
  Deferred<void> ready();
  void start_remote(RemoteCommand command);
  Deferred<std::vector<RemoteEvent>> remote_events(const std::string& id);
  Deferred<void> remote_input(const std::string& id, Bytes bytes, bool last);
  // 0: the caller is gone.
  void remote_signal(const std::string& id, int32_t signal);

  // For the head: the matches of log policies beyond the first `after`, which it has; see LogMatches::beyond().
  Deferred<std::vector<LogMatch>> log_matches(int64_t after);
  // For users of the job; see RemoteCommands::Limits.
  // kUnavailable: the setup still runs, or see RemoteCommands::start(). Without words it is an interactive shell.
  CommandAnswer start_command(RemoteCommand command);
  // Answered when there is something, or after the time.
  Deferred<CommandOutput> read_command(const std::string& id, int64_t wait_ms);
  // kUnavailable: see RemoteCommands::offer().
  CommandAnswer write_command(CommandInput input);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
VOLADOR_ACTOR(Command, &Command::pid, &Command::ready, &Command::start_remote, &Command::remote_events,
              &Command::remote_input, &Command::remote_signal, &Command::log_matches, &Command::start_command,
              &Command::read_command, &Command::write_command);

// Stands for the folder of the files, whose path differs by node, in CommandStart::command and values of env.
inline constexpr std::string_view kJobDirectory = "/@volador-job-dir@";

// Class name and constructor arguments of a Command, for the actor's specification.
std::string command_class();
std::string command_arguments(const CommandStart& start);

}  // namespace volador::jobs
