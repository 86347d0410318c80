// Machines of a cluster as network namespaces of this one, on a bridge, each with a home and a worker of its own; the head is on the first.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/started_cluster.h"

namespace volador::bench {

class Machines {
 public:
  // Empty: namespaces can be made. Else why not: they need root.
  static std::string why_not();

  // Throws std::runtime_error with the command that failed.
  explicit Machines(size_t count);
  ~Machines();
  Machines(const Machines&) = delete;
  Machines& operator=(const Machines&) = delete;

  // The worker of each is named so, from 1.
  static std::string node(size_t machine) { return "m" + std::to_string(machine); }
  std::string address(size_t machine) const;
  // The numbers that bench_remote prints there, a line each.
  std::vector<double> run(size_t machine, const std::string& arguments) const;
  // Until `end` is called with what it gave.
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
