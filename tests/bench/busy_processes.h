// Processes that use the CPU while a figure is measured, as training does.
#pragma once

#include <sys/types.h>

#include <vector>

namespace volador::bench {

// Each process uses one core from construction to destruction. It also ends with this process.
class BusyProcesses {
 public:
  explicit BusyProcesses(int count);
  ~BusyProcesses();
  BusyProcesses(const BusyProcesses&) = delete;
  BusyProcesses& operator=(const BusyProcesses&) = delete;

 private:
  std::vector<pid_t> processes_;
};

}  // namespace volador::bench
