#include "jobs/own_command.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

namespace volador::jobs {
namespace {

// Variables that bash or the loader of programs reads at the start of a process, by their beginnings.
constexpr std::array<std::string_view, 2> kOfTheShell = {"BASH_", "ENV="};
constexpr int kLooksMax = 30;  // At other threads, a millisecond apart.
constexpr std::array<std::string_view, 4> kOfTheLoader = {"LD_", "MALLOC_", "GLIBC_TUNABLES=", "JE_MALLOC_"};

OwnCommand& own_command() {
  static OwnCommand command;
  return command;
}

bool begins_with_any(std::string_view text, const auto& beginnings) {
  return std::ranges::any_of(beginnings, [&](std::string_view beginning) { return text.starts_with(beginning); });
}

bool has_pair(std::string_view pair) {
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (pair == *entry) return true;
  return false;
}

// Whether all other threads of this process wait in the kernel. What they may hold there is what the C library gives back
// after a fork.
bool others_wait() {
  DIR* const tasks = ::opendir("/proc/self/task");
  if (tasks == nullptr) return false;
  const std::string own = std::to_string(::syscall(SYS_gettid));
  bool all = true;
  while (const dirent* task = ::readdir(tasks)) {
    if (task->d_name[0] == '.' || own == task->d_name) continue;
    std::ifstream in(fmt::format("/proc/self/task/{}/stat", task->d_name));
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const size_t name_end = text.rfind(") ");
    all = all && (name_end == std::string::npos || text[name_end + 2] == 'S');
  }
  ::closedir(tasks);
  return all;
}

// As posix_spawn() with GroupSpawn prepares a process.
[[noreturn]] void become_own_command(const std::filesystem::path& directory, std::vector<char*> variables,
                                     OwnOutput output) {
  ::setpgid(0, 0);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // The descriptors of the output are this process's own or above the standard streams.
  ::dup2(output.out, STDOUT_FILENO);
  ::dup2(output.err, STDERR_FILENO);
  ::close(STDIN_FILENO);
  ::open("/dev/null", O_RDONLY);  // Gets the lowest number, 0.
  ::close_range(STDERR_FILENO + 1, ~0U, 0);
  environ = variables.data();
  ::prctl(PR_SET_NAME, "volador");
  int code = 126;  // As a shell: it cannot be executed.
  if (::chdir(directory.c_str()) == 0) {
    code = own_command().run();
  } else {
    std::fprintf(stderr, "volador: working directory %s: %s\n", directory.c_str(), std::strerror(errno));
  }
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace

void set_own_command(OwnCommand command) { own_command() = std::move(command); }

bool is_own_command(const std::vector<std::string>& words, const std::vector<std::string>& variables) {
#if defined(__SANITIZE_THREAD__)
  return false;  // Its runtime starts no threads in such a fork.
#endif
  return own_command().run != nullptr && words == own_command().words &&
         std::ranges::none_of(variables, [](const std::string& pair) {
           return begins_with_any(pair, kOfTheShell) || (begins_with_any(pair, kOfTheLoader) && !has_pair(pair));
         });
}

pid_t fork_own_command(const std::filesystem::path& directory, std::vector<std::string> variables, OwnOutput output) {
  std::erase_if(variables, [](const std::string& pair) { return pair.starts_with("PWD="); });
  variables.push_back("PWD=" + directory.string());  // As the shell sets it.
  std::vector<char*> entries;
  for (std::string& pair : variables) entries.push_back(pair.data());
  entries.push_back(nullptr);
  std::fflush(nullptr);
  // On a busy machine a thread that has something to do may have to wait for a processor first.
  for (int looks = 1; !others_wait(); ++looks) {
    if (looks == kLooksMax) return 0;
    ::usleep(1000);
  }
  const pid_t pid = ::fork();
  if (pid == 0) become_own_command(directory, std::move(entries), output);
  if (pid < 0) return 0;
  ::setpgid(pid, pid);
  return pid;
}

}  // namespace volador::jobs
