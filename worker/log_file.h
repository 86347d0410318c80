// A file that keeps the newest part of an endless output: a few files of limited size, the oldest thrown away.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

#include "runtime/net/unique_fd.h"

namespace volador::worker {

struct LogFileLimits {
  size_t file_bytes_max = 4 << 20;
  int files_max = 4;  // path, path.1 (older) … path.3.
};

// Opened (0600, appending) with the first line. A full or read-only disk loses lines and is said once in the worker's
// log: output never stops a program.
class LogFile {
 public:
  explicit LogFile(std::filesystem::path path, LogFileLimits limits = {});

  void write_line(std::string_view line);
  const std::filesystem::path& path() const { return path_; }

 private:
  void open();
  void rotate();
  void complain(std::string_view what, int error_number);

  std::filesystem::path path_;
  LogFileLimits limits_;
  net::UniqueFd fd_;
  size_t size_ = 0;
  bool complained_ = false;
};

// Removes the oldest files of a folder of logs beyond the limits. Returns how many went.
size_t prune_logs(const std::filesystem::path& folder, uint64_t bytes_max, size_t files_max);

}  // namespace volador::worker
