// Processes that compute while a figure is measured, as on a machine that trains.
#pragma once

#include <sys/types.h>

#include <vector>

namespace volador::bench {

// Each process uses all of one core's time from construction to destruction. It ends with this process too.
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
