// What a node's log files end with, for `volador logs --node=NAME`.
#pragma once

#include <cstdint>
#include <filesystem>

#include "runtime/protocol/control.pb.h"

namespace volador::worker {

struct LogTailLimits {
  int lines_max = 10'000;               // Of a file.
  int64_t file_bytes_max = 256 << 10;   // Of a file's end that is read.
  int64_t bytes_max = 2 << 20;          // Of an answer.
  int files_max = 200;                  // Of hosts; the files written last are read.
};

// The worker's log first, then the files of hosts, the one written longest ago first. Files that are gone or cannot be
// read are left out; where it is the worker's own log the answer says so.
[[nodiscard]] protocol::LogTails read_log_tails(const protocol::ReadLogs& asked, const std::filesystem::path& worker_log,
                                                const std::filesystem::path& host_logs, const LogTailLimits& limits = {});

}  // namespace volador::worker
