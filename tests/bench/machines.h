// Simulates the machines of a cluster as network namespaces on a bridge, each with its own home and worker; the head is
// on the first.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/started_cluster.h"

namespace volador::bench {

class Machines {
 public:
  // Returns an empty string if namespaces can be created, otherwise the reason: they require root.
  static std::string why_not();

  // Throws std::runtime_error with the command that failed.
  explicit Machines(size_t count);
  ~Machines();
  Machines(const Machines&) = delete;
  Machines& operator=(const Machines&) = delete;

  // Name of each machine's worker; numbered from 1.
  static std::string node(size_t machine) { return "m" + std::to_string(machine); }
  std::string address(size_t machine) const;
  // Runs bench_remote on a machine and returns the numbers it prints, one per line.
  std::vector<double> run(size_t machine, const std::string& arguments) const;
  // Starts bench_remote; the process must be ended with end().
  pid_t start(size_t machine, const std::string& arguments) const;
  static void end(pid_t pid);

 private:
  std::string name(size_t machine) const;
  std::string home(size_t machine) const;
  std::string inside(size_t machine) const;

  const TemporaryHome folder_;
  const size_t count_;
  const std::string tag_;
};

}  // namespace volador::bench
