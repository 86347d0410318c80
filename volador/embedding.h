// Programs whose executable is an interpreter that loads Volador as an extension: what the runtime needs to start and
// fork their processes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "volador/init.h"

namespace volador {

struct Embedding {
  std::string name = {};  // Name of the program, for messages: "train.py".
  // Command line of a process of the program, which calls start_role(). argv[0] is the interpreter's name; its file is
  // the one of this process.
  std::vector<std::string> argv = {};
  std::map<std::string, std::string> env = {};  // Variables that such a process gets in addition.
  // Called by the thread that forks hosts of a template: before the fork, after it in the template, and in the host.
  std::function<void()> before_fork = {};
  std::function<void()> after_fork_in_template = {};
  std::function<void()> after_fork_in_host = {};
};

// Does not return in a process that was started for a role; otherwise returns at once. Throws kInvalidArgument if the
// variables of the role are inconsistent.
void start_role(const Embedding& embedding);
// As init(options), without start_role(). Thread safe in so far as nothing else changes the environment.
[[nodiscard]] Cluster init(const InitOptions& options, const Embedding& embedding);

}  // namespace volador
