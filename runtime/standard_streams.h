// Standard input, output and error of this process.
#pragma once

#include <string_view>

namespace volador {

// Opens /dev/null on each closed descriptor of 0, 1 and 2, so that no socket or file gets such a number and receives
// terminal output. Call before other descriptors are opened.
void open_closed_standard_streams();

// Writes to standard error, unbuffered. On a closed descriptor, a full disk or a closed pipe the text is lost without
// exception or SIGPIPE. Any thread.
void write_to_stderr(std::string_view text);

}  // namespace volador
