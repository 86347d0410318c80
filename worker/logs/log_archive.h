// A log with the files that it was rotated into, by the numbers of its lines: parts of it, and what a search finds.
// One thread: that of who writes the files, so that none moves while they are read.
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

struct LogArchiveLimits {
  int lines_max = 1000;                // Of an answer.
  size_t answer_bytes_max = 1 << 20;
  size_t line_bytes_max = 4 << 10;     // The rest of a longer line is cut.
  size_t search_bytes_max = 8 << 20;   // Read for one answer, beyond the first file.
  size_t counts_max = 1000;            // Files whose number of lines is remembered.
};

class LogArchive {
 public:
  LogArchive(std::filesystem::path worker_log, std::filesystem::path host_logs, const LogArchiveLimits& limits = {});

  // A log that nobody has written to yet is empty. The answer's error: kNotFound, nothing of the actor lies on this node;
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
    int64_t bytes = 0, modified_ns = 0;  // An inode that is another file's by now is known by these.
    int64_t lines = 0;
  };
  int64_t lines_in(const std::filesystem::path& path);
  Result<void> read_lines(const std::vector<Piece>& pieces, const protocol::ReadLog& asked, protocol::LogPart& answer) const;
  Result<void> search(const std::vector<Piece>& pieces, const protocol::ReadLog& asked, protocol::LogPart& answer) const;

  const std::filesystem::path worker_log_, host_logs_;
  const LogArchiveLimits limits_;
  std::map<std::pair<uint64_t, uint64_t>, Counted> counts_;  // By device and inode.
};

}  // namespace volador::worker
