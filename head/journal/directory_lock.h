// Locks a folder for one process: flock on <folder>/lock, released by the kernel however the process ends.
#pragma once

#include <filesystem>

#include "runtime/result.h"

namespace volador::head {

// Movable; releases the lock when destroyed. Programs started by this process do not inherit it; a fork without exec
// does.
class DirectoryLock {
 public:
  // The folder must exist. kUnavailable: another process holds the lock; the message names its pid.
  [[nodiscard]] static Result<DirectoryLock> acquire(const std::filesystem::path& folder);
  // The pid of the current holder; 0: none (the file of an ended process does not count).
  static int holder(const std::filesystem::path& folder);

  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&& other) noexcept;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace volador::head
