#include "head/journal/directory_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

namespace volador::head {
namespace {

int pid_in(int fd) {
  char text[32];
  ssize_t size = pread(fd, text, sizeof text, 0);
  int pid = 0;
  if (size > 0) std::from_chars(text, text + size, pid);
  return pid;
}

}  // namespace

Result<DirectoryLock> DirectoryLock::acquire(const std::filesystem::path& folder) {
  const std::string path = folder / "lock";
  int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format("{}: cannot be opened: {}. Choose another folder or set its rights.", path, std::strerror(errno)));
  }
  DirectoryLock lock(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{}: another head runs on this folder (pid {}). Stop it first (`volador stop`), or "
                                  "start this one in another folder.",
                                  folder.string(), pid_in(fd)));
  }
  const std::string pid = fmt::format("{}\n", getpid());
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{}: cannot be written: {}. Make space on its disk.", path, std::strerror(errno)));
  }
  return lock;
}

int DirectoryLock::holder(const std::filesystem::path& folder) {
  int fd = open((folder / "lock").c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return 0;
  DirectoryLock probe(fd);
  return flock(fd, LOCK_SH | LOCK_NB) == 0 ? 0 : pid_in(fd);
}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

DirectoryLock& DirectoryLock::operator=(DirectoryLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

DirectoryLock::~DirectoryLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace volador::head
