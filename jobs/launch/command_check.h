// Rules for the command of a job: a list of words that is executed without a shell.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"

namespace volador::jobs {

// Accepts a command whose first word is an executable and which contains a single statement.
// kInvalidArgument: the command or its first word is empty, a word contains a zero byte, the first word is KEY=VALUE,
// or the command has an operator that only a shell executes, as a word of its own (`&&`, `|`, `2>`) or as `;` or `&` at
// the end of a word. Operators inside a word and in the code of `bash -c` or `sh -c` are arguments and are accepted.
// The message shows the `bash -c '...'` command line that does what the words mean in a shell.
Result<void> check_command(const std::vector<std::string>& command);

// Position of the code among the words, if they start a shell with -c: 2 for bash -c CODE, 3 for env A=1 sh -ec CODE.
std::optional<size_t> shell_code_index(const std::vector<std::string>& command);

// The word as a POSIX shell reads it back: unchanged if it contains only letters, digits and %+,-./:=@_, otherwise in
// single quotes.
std::string shell_quoted(std::string_view word);

// "bash -c '...'" in which the shell executes the operators and assignments among the words and expands variables such
// as ${RANK}. All other characters have no meaning to that shell. Operators at the start and at the end are left out.
std::string bash_command_line(const std::vector<std::string>& command);

}  // namespace volador::jobs
