// Standard input, output and error of this process.
#pragma once

#include <string_view>

namespace volador {

// Opens /dev/null on each of the descriptors 0, 1 and 2 that is closed, so that no socket or file of this process gets
// such a number and receives what is meant for a terminal. Call before other descriptors are opened.
void open_closed_standard_streams();

// Writes to standard error, unbuffered. A closed descriptor, a full disk and a reader that has gone lose the text: they
// neither throw nor raise SIGPIPE. Any thread.
void write_to_stderr(std::string_view text);

}  // namespace volador
