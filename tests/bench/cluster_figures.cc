// Figures of a whole cluster, started by the command line in its own folder.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "tests/bench/figure.h"
#include "tests/bench/started_cluster.h"

namespace volador::bench {
namespace {

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
  for (int run = 0; run < 5; ++run) measured.values.push_back(StartedCluster().seconds());
  return measured;
}

Measured stop_idle() {
  Measured measured{.note = "no baseline; the aim is 1 s"};
  for (int run = 0; run < 3; ++run) {
    auto started = std::make_unique<StartedCluster>();
    const auto begin = std::chrono::steady_clock::now();
    started.reset();
    measured.values.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return measured;
}

Measured idle_memory() {
  const StartedCluster started;
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
  const StartedCluster started;
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
