// Commands of jobs that are this program again, such as `volador experiment run-trial`: a rank runs them as a fork of its
// host, which has loaded the program. A new process of it takes 30 ms of processor time to load.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace volador::jobs {

struct OwnCommand {
  std::vector<std::string> words;  // The command of the job, word by word.
  std::function<int()> run;        // In the fork: what a new process would do. Returns its exit code.
};

// For the hosts of jobs that this process becomes or forks. Before init().
void set_own_command(OwnCommand command);

// Whether a fork of this process is the same as a new process: these are the words, and no variable changes how the shell
// or the program would be loaded.
[[nodiscard]] bool is_own_command(const std::vector<std::string>& words, const std::vector<std::string>& variables);

struct OwnOutput {
  int out = 1;  // Descriptors, by default those of this process.
  int err = 2;
};

// Starts the command in a process group of its own, with this output and no input, in the directory, with these variables
// ("NAME=value") and no other descriptors. Returns its pid; 0: start a new process, since another thread runs, which may
// hold what the fork would wait for, or there is no fork.
[[nodiscard]] pid_t fork_own_command(const std::filesystem::path& directory, std::vector<std::string> variables,
                                     OwnOutput output = {});

}  // namespace volador::jobs
