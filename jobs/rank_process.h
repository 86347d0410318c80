// Processes of a rank of a job: the setup, the command and what other ranks start here. All run in the same environment,
// working directory and sandbox.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::jobs {

// Exit codes of a rank where the command itself did not run; others are those of the command, 128 + number for a
// signal.
inline constexpr int kExitNotFound = 127;     // As a shell: there is no such program.
inline constexpr int kExitCannotRun = 126;    // As a shell: it cannot be executed.
inline constexpr int kExitSetupFailed = 125;  // The setup, the code folder or the working directory; stderr says what.

// Where and how the processes of a rank run.
struct RankSurroundings {
  std::string job;  // "job-7".
  int32_t rank = 0;
  std::filesystem::path folder;     // The job's folder on this node.
  std::filesystem::path directory;  // Working directory.
  // For an isolated job on several nodes: the folder is also seen here, and the working directory in it. Launchers such
  // as mpirun start processes on all nodes in the directory of the first one.
  std::filesystem::path folder_inside;
  std::vector<std::string> environment;      // "NAME=value".
  bool isolated = false;                     // Runs in namespaces of its own (jobs/sandbox).
  std::vector<std::string> mounts;           // For an isolated job: "/source:/target:ro".
  int64_t shm_bytes = 0;                     // For an isolated job: size of /dev/shm; 0: 4 GiB.
  std::string output;                        // Folder for what the job makes; empty: none.
  std::filesystem::path environment_folder;  // The environment that was built for the job; empty: none.
  std::filesystem::path root;                // Root file system of an isolated job; empty: that of the node.
  std::map<std::string, std::string> files;  // For an isolated job: path inside, and source on this node; read-only.
  int stop_signal = 15;                      // Asks a process to end.
};

// Runs programs one after another, each in a process group of its own. Thread safe: terminate(), send() and pid() may be
// called while another thread starts or waits. Needs an actor: self().
class RankProcess {
 public:
  // Descriptors of the program's standard streams.
  struct Streams {
    int in = -1;   // -1: /dev/null.
    int out = -1;  // -1: that of this process.
    int err = -1;  // -1: that of this process.
    // Path of a terminal that the program gets for all three, and that controls it; empty: none.
    std::string terminal = {};
  };
  // Why a program did not start, and the exit code that stands for it.
  struct Refusal {
    int code = kExitCannotRun;
    std::string message;  // Empty: terminate() was called before.
  };

  // The surroundings outlive this object and do not change while a program is started.
  explicit RankProcess(const RankSurroundings& surroundings) : surroundings_(surroundings) {}

  // No value: the program has started; call wait().
  [[nodiscard]] std::optional<Refusal> start(std::vector<std::string> words, const Streams& streams);
  // Starts the command that is this program, if a fork can be it (jobs/own_command.h), without input. False: call
  // start(). Call it where no other thread of this process works.
  [[nodiscard]] bool start_own(const std::vector<std::string>& words, const Streams& streams);
  // Waits for the end of the program. Returns its exit code. `end_group`: kills what the program left in its group.
  int wait(bool end_group);
  // Starts a program and waits for its end. Refusals go to the standard error.
  int run(std::vector<std::string> words, const Streams& streams);

  // Asks the running program to end by the stop signal; further programs are refused. Repeated calls ask again.
  void terminate();
  // Whether terminate() was called.
  bool ending() const;
  // Sends a signal to the running program and its group.
  void send(int signal);
  // Kills the running program, and in a sandbox everything in it.
  void kill();
  // The process id of the running program; 0: none runs.
  pid_t pid() const;

 private:
  Result<std::vector<std::string>> sandboxed(const std::vector<std::string>& words, bool terminal,
                                             bool with_filter) const;
  void send_locked(int signal);

  const RankSurroundings& surroundings_;
  mutable std::mutex mutex_;
  pid_t pid_ = 0;                 // Leads the process group.
  bool ending_ = false;           // No further process is started.
  net::UniqueFd sandbox_status_;  // What bubblewrap reports of the running process; invalid: it is not isolated.
  pid_t sandbox_first_ = 0;       // The first process in its namespace; 0: not known yet.
};

// The environment of this process with the job's variables, "NAME=value".
std::vector<std::string> environment_of_rank(const std::map<std::string, std::string>& own);

// Writes a line to the standard error.
void say(const std::string& text);

}  // namespace volador::jobs
