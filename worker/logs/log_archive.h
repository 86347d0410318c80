// Reads and searches a log together with its rotated files by line number. Runs on the thread that writes the files, so
// that none is rotated while it is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"
#include "worker/logs/log_search.h"

namespace volador::worker {

// Limits of reads and searches.
struct LogArchiveLimits {
  int lines_max = 1000;  // Per answer.
  size_t answer_bytes_max = 1 << 20;
  size_t line_bytes_max = 4 << 10;    // Longer lines are cut.
  size_t search_bytes_max = 8 << 20;  // Read per answer, beyond the first file.
  size_t counts_max = 1000;           // Files whose line count is cached.
};

// Reads and searches the logs of a node. One thread.
class LogArchive {
 public:
  LogArchive(std::filesystem::path worker_log, std::filesystem::path host_logs, const LogArchiveLimits& limits = {});

  // A log that was never written is empty. The answer's error: kNotFound, no files of the actor on this node;
  // kUnavailable, a file cannot be read.
  protocol::LogPart read(const protocol::ReadLog& asked);

 private:
  struct Piece {
    std::filesystem::path path;
    int64_t first = 0, lines = 0;
    size_t bytes = 0;
  };
  Result<std::filesystem::path> find(const protocol::ReadLog& asked, protocol::LogPart& answer) const;
  std::vector<Piece> pieces_of(const std::filesystem::path& log);
  struct Counted {
    int64_t bytes = 0, modified_ns = 0;  // Detects a reused inode.
    int64_t lines = 0;
  };
  int64_t lines_in(const std::filesystem::path& path);
  Result<void> read_lines(const std::vector<Piece>& pieces, const protocol::ReadLog& asked,
                          protocol::LogPart& answer) const;
  Result<void> search(const std::vector<Piece>& pieces, const protocol::ReadLog& asked,
                      protocol::LogPart& answer) const;

  const std::filesystem::path worker_log_, host_logs_;
  const LogArchiveLimits limits_;
  std::map<std::pair<uint64_t, uint64_t>, Counted> counts_;  // By device and inode.
};

}  // namespace volador::worker
