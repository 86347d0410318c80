#include "jobs/remote/write_whole.h"

#include <poll.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace volador::jobs {

bool write_whole(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote > 0) bytes.remove_prefix(static_cast<size_t>(wrote));
    if (wrote >= 0 || errno == EINTR) continue;
    if (errno != EAGAIN) return false;
    pollfd room{fd, POLLOUT, 0};
    ::poll(&room, 1, -1);
  }
  return true;
}

}  // namespace volador::jobs
