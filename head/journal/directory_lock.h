// One process at a time in a folder: flock on <folder>/lock, released by the kernel however the process ends.
#pragma once

#include <filesystem>

#include "runtime/result.h"

namespace volador::head {

// Movable; releases when destroyed. Not inherited by programs that this process starts; a fork without exec holds it too.
class DirectoryLock {
 public:
  // The folder exists. kUnavailable: another process holds it; the message names its pid.
  [[nodiscard]] static Result<DirectoryLock> acquire(const std::filesystem::path& folder);
  // The pid that holds it now; 0: nobody (a file left by a process that ended says nothing).
  static int holder(const std::filesystem::path& folder);

  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&& other) noexcept;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace volador::head
