// A program that listens on a port of the loopback: started, watched, started again after its end, and ended with this
// process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace volador {

struct ServiceProcessOptions {
  std::string name;                  // For messages: suggestion service "toy".
  std::vector<std::string> command;  // "{port}" in an argument is replaced by the port, which is also in PORT.
  // What starts it, in the environment variable VOLADOR_SERVICE_OWNER, which its children have too. Empty: none.
  std::string owner = {};
  std::filesystem::path log;  // Gets the output, the older part under the name with ".1"; empty: none does.
  // Between the end of the process and its next start; doubled after each start, up to pause_max, until one has lived
  // for pause_max.
  std::chrono::milliseconds pause{1'000}, pause_max{60'000};
};

// Kills what services of this owner left behind, such as children with a session of their own of a service that ended
// with a killed owner. Call before others of this owner start.
void end_left_services(const std::string& owner);

// Thread safe.
class ServiceProcess {
 public:
  // Starts the process on a thread of its own.
  explicit ServiceProcess(ServiceProcessOptions options);
  // Ends the process and all that it has started.
  ~ServiceProcess();

  struct State {
    std::string address;  // 127.0.0.1 and the port; empty: no process runs.
    pid_t pid = 0;        // 0: no process runs.
    uint64_t starts = 0;  // Processes so far.
    std::string ended;    // Why the last one ended, or could not start; empty: none has.
  };
  State state() const;
  // Waits until a process runs; returns at once if the last one has ended or could not start.
  State wait(std::chrono::milliseconds patience) const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace volador
