#include "tests/bench/started_cluster.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/bench/figure.h"

namespace volador::bench {

namespace fs = std::filesystem;

namespace {

nlohmann::json json_of(const fs::path& file) {
  std::ifstream in(file);
  return nlohmann::json::parse(in);
}

}  // namespace

fs::path program_beside(const std::string& name) { return fs::read_symlink("/proc/self/exe").parent_path() / name; }

double timed(const std::vector<std::string>& arguments, const fs::path& home) {
  const auto begin = std::chrono::steady_clock::now();
  const pid_t pid = fork();
  if (pid == 0) {
    setenv("VOLADOR_HOME", home.c_str(), 1);
    unsetenv("VOLADOR_ADDRESS");
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    if (freopen("/dev/null", "w", stdout) == nullptr || freopen("/dev/null", "w", stderr) == nullptr) _exit(126);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? seconds_since(begin) : -1;
}

double pss_mb(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/smaps_rollup", pid));
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("Pss:")) return std::atof(line.c_str() + 4) / 1024;
  }
  return 0;
}

TemporaryHome::TemporaryHome() {
  std::string path = (fs::temp_directory_path() / "volador-bench-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr)
    throw std::runtime_error("no folder can be made in " + fs::temp_directory_path().string());
  path_ = path;
}

TemporaryHome::~TemporaryHome() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

StartedCluster::StartedCluster(const std::vector<std::string>& flags) {
  std::vector<std::string> command{program_beside("volador"), "start",       "--head", "--port=0",
                                   "--cluster=bench",         "--name=bench"};
  command.insert(command.end(), flags.begin(), flags.end());
  seconds_ = timed(command, home_.path());
}

StartedCluster::~StartedCluster() { timed({program_beside("volador"), "stop", "--all"}, home_.path()); }

std::vector<pid_t> StartedCluster::pids() const {
  std::vector<pid_t> found;
  const std::string needle = "VOLADOR_HOME=" + home_.path().string();
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    std::string variable;
    while (std::getline(file, variable, '\0')) {
      if (variable == needle) found.push_back(std::atoi(name.c_str()));
    }
  }
  return found;
}

pid_t StartedCluster::head_pid() const {
  std::ifstream file(folder() / "head/head.pid");
  pid_t pid = 0;
  if (!(file >> pid)) throw std::runtime_error("the head of the bench's cluster did not start");
  return pid;
}

std::string StartedCluster::address() const { return json_of(folder() / "access.json").at("address"); }
std::string StartedCluster::operator_token() const { return json_of(folder() / "access.json").at("token"); }
std::string StartedCluster::join_token() const { return json_of(folder() / "head/cluster.json").at("join_token"); }
int StartedCluster::dashboard_port() const { return json_of(folder() / "head/dashboard.json").at("port"); }

}  // namespace volador::bench
