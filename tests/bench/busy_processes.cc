#include "tests/bench/busy_processes.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

namespace volador::bench {
namespace {

// Runs in a fork of a process with threads: async-signal-safe calls only.
[[noreturn]] void compute(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  close_range(3, ~0U, 0);  // Sockets of the measured processes must close when those end.
  volatile double value = 1;
  while (true) value = value * 1.000001 + 1e-9;
}

}  // namespace

BusyProcesses::BusyProcesses(int count) {
  const pid_t parent = getpid();
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error(fmt::format("--busy: process {} of {} could not be started", i + 1, count));
    if (child == 0) compute(parent);
    processes_.push_back(child);
  }
}

BusyProcesses::~BusyProcesses() {
  for (const pid_t process : processes_) {
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
  }
}

}  // namespace volador::bench
