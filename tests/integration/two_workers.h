// A cluster of two workers started by the command line, to which init() of this program connects.
#pragma once

#include <fmt/format.h>
#include <sys/types.h>

#include <csignal>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tests/cli/cluster/run_volador.h"

namespace volador::testing {

// A head with its worker "first", and a worker "second"; each offers 4 CPUs and the resources in its flags.
class TwoWorkers {
 public:
  explicit TwoWorkers(std::vector<std::string> first = {}, std::vector<std::string> second = {})
      : second_(std::move(second)) {
    std::vector<std::string> start{"start",        "--head",       "--port=0", "--cluster=heron",
                                   "--name=first", "--num-cpus=4", "--json"};
    start.insert(start.end(), first.begin(), first.end());
    const auto head = run(start).json();
    address_ = head["address"];
    pids_["first"] = head["pids"].back();
    const auto token = run({"token", "create"});
    token_ = token.out.substr(0, token.out.find('\n'));
    start_second();
    ::setenv("VOLADOR_HOME", user_.home().c_str(), 1);
    ::setenv("VOLADOR_ADDRESS", address_.c_str(), 1);
  }
  void start_second() {
    std::vector<std::string> start{"start",         "--address=" + address_, "--token=" + token_,
                                   "--name=second", "--num-cpus=4",          "--json"};
    start.insert(start.end(), second_.begin(), second_.end());
    pids_["second"] = run(start).json()["pids"][0];
  }
  pid_t pid_of(const std::string& worker) const { return pids_.at(worker); }
  void kill_second() const { ::kill(pid_of("second"), SIGKILL); }
  Finished run(std::vector<std::string> arguments) const {
    auto finished = user_.run(std::move(arguments));
    if (finished.code != 0) fmt::print(stderr, "{}\n", finished.error);
    return finished;
  }

 private:
  VoladorUser user_;
  const std::vector<std::string> second_;  // Flags of the second worker.
  std::string address_, token_;
  std::map<std::string, pid_t> pids_;  // Pids of the workers.
};

}  // namespace volador::testing
