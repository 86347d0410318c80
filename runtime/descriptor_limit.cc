#include "runtime/descriptor_limit.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace volador {

uint64_t raise_descriptor_limit(uint64_t most) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return 0;
  const rlim_t wanted = std::min<rlim_t>(files.rlim_max, most);
  if (files.rlim_cur >= wanted) return files.rlim_cur;
  const rlim_t before = std::exchange(files.rlim_cur, wanted);
  return ::setrlimit(RLIMIT_NOFILE, &files) == 0 ? wanted : before;
}

bool can_open_descriptors(int wanted) {
  std::vector<int> opened;
  while (static_cast<int>(opened.size()) < wanted) {
    const int fd = ::eventfd(0, EFD_CLOEXEC);
    if (fd < 0) break;
    opened.push_back(fd);
  }
  for (const int fd : opened) ::close(fd);
  return static_cast<int>(opened.size()) == wanted;
}

}  // namespace volador
