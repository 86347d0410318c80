// Figures of a whole cluster, started by the command line in a folder of its own.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/bench/figure.h"

namespace volador::bench {
namespace {

namespace fs = std::filesystem;

// `volador` beside this program.
std::string volador_binary() { return fs::read_symlink("/proc/self/exe").parent_path() / "volador"; }

// Seconds until the command returned; negative when it failed.
double timed(const std::vector<std::string>& arguments, const fs::path& home) {
  const auto begin = std::chrono::steady_clock::now();
  const pid_t pid = fork();
  if (pid == 0) {
    setenv("VOLADOR_HOME", home.c_str(), 1);
    unsetenv("VOLADOR_ADDRESS");
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    if (freopen("/dev/null", "w", stdout) == nullptr) _exit(126);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? took.count() : -1;
}

// A head with its worker, for the life of the object.
class Started {
 public:
  Started() : home_(fs::temp_directory_path() / fmt::format("volador-bench-{}", getpid())) {
    fs::create_directories(home_);
    seconds_ = timed({volador_binary(), "start", "--head", "--port=0", "--cluster=bench", "--name=bench"}, home_);
  }
  ~Started() {
    timed({volador_binary(), "stop", "--all"}, home_);
    fs::remove_all(home_);
  }
  double seconds() const { return seconds_; }

  // The processes whose home is ours.
  std::vector<pid_t> pids() const {
    std::vector<pid_t> found;
    const std::string needle = "VOLADOR_HOME=" + home_.string();
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

 private:
  fs::path home_;
  double seconds_ = 0;
};

double pss_mb(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/smaps_rollup", pid));
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("Pss:")) return std::atof(line.c_str() + 4) / 1024;
  }
  return 0;
}

double cpu_seconds(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(line.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

Measured start_ready() {
  Measured measured{.note = "no baseline; the aim is 0.3 s"};
  for (int run = 0; run < 5; ++run) measured.values.push_back(Started().seconds());
  return measured;
}

Measured stop_idle() {
  Measured measured{.note = "no baseline; the aim is 1 s"};
  for (int run = 0; run < 3; ++run) {
    auto started = std::make_unique<Started>();
    const auto begin = std::chrono::steady_clock::now();
    started.reset();
    measured.values.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return measured;
}

Measured idle_memory() {
  const Started started;
  std::this_thread::sleep_for(std::chrono::seconds(3));
  double sum = 0;
  std::string each;
  for (const pid_t pid : started.pids()) {
    const double mb = pss_mb(pid);
    sum += mb;
    each += fmt::format(" {:.1f}", mb);
  }
  return {.values = {sum}, .baselines = {}, .note = "PSS a process:" + each + "; the aim is 40 + 20"};
}

Measured idle_cpu() {
  const Started started;
  std::this_thread::sleep_for(std::chrono::seconds(3));
  const auto total = [&] {
    double sum = 0;
    for (const pid_t pid : started.pids()) sum += cpu_seconds(pid);
    return sum;
  };
  const double before = total();
  std::this_thread::sleep_for(std::chrono::seconds(20));
  return {.values = {(total() - before) / 20 * 100}, .baselines = {}, .note = "of one core, over 20 s; the aim is 0.5"};
}

}  // namespace

std::vector<Figure> cluster_figures() {
  return {{"start_ready", "s", false, start_ready},
          {"stop_idle", "s", false, stop_idle},
          {"idle_memory", "MB", false, idle_memory},
          {"idle_cpu", "%", false, idle_cpu}};
}

}  // namespace volador::bench
