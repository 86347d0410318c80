// This process's own executable, as others start it again.
#pragma once

#include <string>

#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"

namespace volador {

struct ProgramDescription {
  std::string name;  // Of the file, for people.
  protocol::Program description;
};

// Hash, path, arguments, working directory, and the variables that actors should see (VOLADOR_* and secrets left out).
Result<ProgramDescription> describe_program();

}  // namespace volador
