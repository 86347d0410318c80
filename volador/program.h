// The executable of this process, so that it can be started again elsewhere.
#pragma once

#include <string>
#include <vector>

#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"

namespace volador {

struct Embedding;

// Command line that starts a process of this program. `embedding`: null unless the executable is an interpreter.
std::vector<std::string> command_line(const Embedding* embedding);

struct ProgramDescription {
  std::string name;  // File name, for messages.
  protocol::Program description;
};

// Reads hash, path, arguments, working directory, and the environment variables for actors (without VOLADOR_* and
// secrets). `embedding`: as above.
Result<ProgramDescription> describe_program(const Embedding* embedding);

}  // namespace volador
