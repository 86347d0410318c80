// Reads passwords of users, which never come from the arguments of a command: other users of the machine see these.
#pragma once

#include <string>

#include "cli/outcome.h"
#include "cli/render/terminal.h"

namespace volador::cli {

// The first line of the file, "-" for the standard input; without a file the question is asked on the terminal, which does
// not show the answer, and otherwise the first line of the standard input is read. kUsage: it cannot be read, or it is
// empty.
[[nodiscard]] tl::expected<std::string, Failure> read_password(const Terminal& terminal, const std::string& question,
                                                               const std::string& file);
// As read_password; on a terminal it asks twice.
[[nodiscard]] tl::expected<std::string, Failure> read_new_password(const Terminal& terminal,
                                                                   const std::string& question,
                                                                   const std::string& file);

}  // namespace volador::cli
