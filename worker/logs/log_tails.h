// Last lines of a node's log files, for `volador logs --node=NAME`.
#pragma once

#include <cstdint>
#include <filesystem>

#include "runtime/protocol/control.pb.h"

namespace volador::worker {

// Limits of read_log_tails().
struct LogTailLimits {
  int lines_max = 10'000;              // Per file.
  int64_t file_bytes_max = 256 << 10;  // Read from the end of each file.
  int64_t bytes_max = 2 << 20;         // Per answer.
  int files_max = 200;                 // Host files; the most recently written ones are read.
};

// Returns the worker's log first, then host files by time of the last write, oldest first. Missing and unreadable files
// are skipped; for the worker's own log this is reported.
[[nodiscard]] protocol::LogTails read_log_tails(const protocol::ReadLogs& asked,
                                                const std::filesystem::path& worker_log,
                                                const std::filesystem::path& host_logs,
                                                const LogTailLimits& limits = {});

}  // namespace volador::worker
