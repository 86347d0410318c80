#include "tests/cli/cluster/run_volador.h"

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>

#include "runtime/process_file.h"
#include "tests/built_program.h"

namespace volador::testing {

namespace fs = std::filesystem;

namespace {

const std::string kVolador = built_program("volador");

std::string content(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

}  // namespace

VoladorUser::~VoladorUser() {
  for (const pid_t pid : started_) {
    if (::waitpid(pid, nullptr, WNOHANG) != 0) continue;  // It has ended, or the test has reaped it.
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  run({"stop", "--all", "--patience=2s"});
}

Finished VoladorUser::run(std::vector<std::string> arguments,
                          const std::map<std::string, std::string>& environment) const {
  TemporaryDirectory output;
  const fs::path out = output.path() / "out", error = output.path() / "error";
  std::vector<std::string> settings = variables();
  for (const auto& [name, value] : environment) {
    std::erase_if(settings, [&](const std::string& setting) { return setting.starts_with(name + "="); });
    settings.push_back(name + "=" + value);
  }
  arguments.insert(arguments.begin(), kVolador);

  Finished result;
  const auto begin = std::chrono::steady_clock::now();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(::open("/dev/null", O_RDONLY), 0);
    ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT, 0600), 1);
    ::dup2(::open(error.c_str(), O_WRONLY | O_CREAT, 0600), 2);
    if (::chdir(home().c_str()) != 0) ::_exit(126);
    ::execve(kVolador.c_str(), pointers(arguments).data(), pointers(settings).data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = content(out);
  result.error = content(error);
  return result;
}

Finished VoladorUser::run_in_terminal(std::vector<std::string> arguments, int columns,
                                      const std::map<std::string, std::string>& environment,
                                      const std::string& input) const {
  std::vector<std::string> settings = variables();
  settings.push_back("TERM=xterm");
  for (const auto& [name, value] : environment) settings.push_back(name + "=" + value);
  arguments.insert(arguments.begin(), kVolador);
  winsize size{.ws_row = 40, .ws_col = static_cast<unsigned short>(columns), .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  Finished result;
  const pid_t pid = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (pid == 0) {
    if (::chdir(home().c_str()) != 0) ::_exit(126);
    ::execve(kVolador.c_str(), pointers(arguments).data(), pointers(settings).data());
    ::_exit(127);
  }
  if (pid < 0) return result;
  size_t typed = 0;
  while (typed < input.size()) {
    const ssize_t n = ::write(terminal, input.data() + typed, input.size() - typed);
    if (n <= 0) break;
    typed += static_cast<size_t>(n);
  }
  char buffer[4096];
  for (ssize_t n; (n = ::read(terminal, buffer, sizeof buffer)) > 0;) result.out.append(buffer, static_cast<size_t>(n));
  int status = 0;
  ::waitpid(pid, &status, 0);
  ::close(terminal);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::vector<std::string> VoladorUser::variables() const {
  return {"VOLADOR_HOME=" + home().native(), "PATH=/usr/bin:/bin", "HOME=" + home().native()};
}

pid_t VoladorUser::start(const std::string& program, std::vector<std::string> arguments) {
  std::vector<std::string> settings = variables();
  arguments.insert(arguments.begin(), program);
  const pid_t pid = ::fork();
  if (pid > 0) started_.push_back(pid);
  if (pid != 0) return pid;
  for (int fd : {0, 1, 2}) ::dup2(::open("/dev/null", O_RDWR), fd);
  if (::chdir(home().c_str()) != 0) ::_exit(126);
  ::execve(program.c_str(), pointers(arguments).data(), pointers(settings).data());
  ::_exit(127);
}

bool is_alive(pid_t pid) { return describe_process(pid).has_value(); }

std::vector<std::string> processes_of(const fs::path& home) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().native();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string environment = content(entry.path() / "environ");
    if (environment.find("VOLADOR_HOME=" + home.native()) == std::string::npos || !is_alive(std::stoi(name))) continue;
    std::string command = content(entry.path() / "cmdline");
    std::replace(command.begin(), command.end(), '\0', ' ');
    found.push_back(name + " " + command);
  }
  return found;
}

}  // namespace volador::testing
