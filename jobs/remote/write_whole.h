// Writes to pipes, sockets and terminals.
#pragma once

#include <string_view>

namespace volador::jobs {

// Writes all bytes to a descriptor, which may be one that does not block: then waits for room. False: it has no reader
// any more.
bool write_whole(int fd, std::string_view bytes);

}  // namespace volador::jobs
