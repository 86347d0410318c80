// Starts a program in a process group of its own, with the signals of a new process.
#pragma once

#include <spawn.h>
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace volador::jobs {

class GroupSpawn {
 public:
  GroupSpawn();
  ~GroupSpawn();
  GroupSpawn(const GroupSpawn&) = delete;
  GroupSpawn& operator=(const GroupSpawn&) = delete;

  // What the new process does before the program, in the order of the calls.
  void open(int fd, const std::string& path, int flags, mode_t mode = 0);
  void duplicate(int from, int to);
  void change_directory(const std::string& path);
  // The program leads a session of its own, and this terminal controls it and is its three standard streams.
  void use_terminal(const std::string& path);

  // Starts the program that the first word names, looked up in the PATH of `variables` ("NAME=value"), which are its
  // environment. Returns 0, or an error number: ENOENT if there is no such program.
  int start(std::vector<std::string> words, std::vector<std::string> variables, pid_t& pid) const;

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// The first executable file of this name in the folders of PATH in `variables`; a name with a slash is returned as it
// is. Empty: there is none.
std::string find_program(const std::string& name, const std::vector<std::string>& variables);
// The value of a variable; empty: it is not set.
std::string value_of(const std::vector<std::string>& variables, std::string_view name);

}  // namespace volador::jobs
