// Log file with rotation: keeps the newest part of unlimited output in a few files of limited size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "runtime/net/unique_fd.h"

namespace volador::worker {

// Limits of a LogFile.
struct LogFileLimits {
  size_t file_bytes_max = 4 << 20;
  int files_max = 16;  // path, path.1 (older) … path.15.
};

// Opened (0600, append) with the first lines. A full or read-only disk loses lines and is reported once in the worker's
// log: output never blocks a program.
class LogFile {
 public:
  explicit LogFile(std::filesystem::path path, LogFileLimits limits = {});

  // Whole lines, each with its newline.
  void write(std::string_view lines);
  const std::filesystem::path& path() const { return path_; }

 private:
  size_t part_that_fits(std::string_view lines) const;
  void open();
  void rotate();
  void note_lines_before() const;
  void complain(std::string_view what, int error_number);

  std::filesystem::path path_;
  LogFileLimits limits_;
  net::UniqueFd fd_;
  size_t size_ = 0;
  int64_t lines_ = 0;         // Lines in this file.
  int64_t lines_before_ = 0;  // Lines in rotated files, including removed ones.
  bool complained_ = false;
};

// File next to a rotated log with the number of lines before its first file.
std::filesystem::path lines_before_path(const std::filesystem::path& log);
// 0: not rotated, or unknown.
int64_t read_lines_before(const std::filesystem::path& log);

// Removes the oldest files of a log folder beyond the limits. Returns the number removed.
size_t prune_logs(const std::filesystem::path& folder, uint64_t bytes_max, size_t files_max);

}  // namespace volador::worker
