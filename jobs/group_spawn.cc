#include "jobs/group_spawn.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <system_error>

namespace volador::jobs {
namespace {

namespace fs = std::filesystem;

std::vector<char*> c_strings(std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

GroupSpawn::GroupSpawn() {
  posix_spawn_file_actions_init(&actions_);
  posix_spawnattr_init(&attributes_);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes_, &none);
  posix_spawnattr_setsigdefault(&attributes_, &all);
  posix_spawnattr_setpgroup(&attributes_, 0);
  posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
}

GroupSpawn::~GroupSpawn() {
  posix_spawn_file_actions_destroy(&actions_);
  posix_spawnattr_destroy(&attributes_);
}

void GroupSpawn::open(int fd, const std::string& path, int flags, mode_t mode) {
  posix_spawn_file_actions_addopen(&actions_, fd, path.c_str(), flags, mode);
}

void GroupSpawn::duplicate(int from, int to) { posix_spawn_file_actions_adddup2(&actions_, from, to); }

void GroupSpawn::change_directory(const std::string& path) {
  posix_spawn_file_actions_addchdir_np(&actions_, path.c_str());
}

// The first terminal that the leader of a session opens without O_NOCTTY controls the session.
void GroupSpawn::use_terminal(const std::string& path) {
  posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  open(STDIN_FILENO, path, O_RDWR);
  duplicate(STDIN_FILENO, STDOUT_FILENO);
  duplicate(STDIN_FILENO, STDERR_FILENO);
}

int GroupSpawn::start(std::vector<std::string> words, std::vector<std::string> variables, pid_t& pid) const {
  const std::string program = find_program(words.front(), variables);
  if (program.empty()) return ENOENT;
  const std::vector<char*> argv = c_strings(words);
  const std::vector<char*> envp = c_strings(variables);
  return ::posix_spawn(&pid, program.c_str(), &actions_, &attributes_, argv.data(), envp.data());
}

std::string find_program(const std::string& name, const std::vector<std::string>& variables) {
  if (name.find('/') != std::string::npos) return name;
  std::string path = value_of(variables, "PATH");
  if (path.empty()) path = "/usr/bin:/bin";
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    const fs::path file = fs::path(path.substr(at, end - at)) / name;
    std::error_code failed;
    if (file.is_absolute() && ::access(file.c_str(), X_OK) == 0 && fs::is_regular_file(file, failed))
      return file.string();
    at = end + 1;
  }
  return {};
}

std::string value_of(const std::vector<std::string>& variables, std::string_view name) {
  for (const std::string& pair : variables) {
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=')
      return pair.substr(name.size() + 1);
  }
  return {};
}

}  // namespace volador::jobs
