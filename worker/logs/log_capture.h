// Output of one host: two pipes into rotated files, into batches for the head, and into the tail that goes with a
// death.
//
//   pipe ──► LineSplitter ──► JobThread ──► LogFile (everything, the newest 16 × 4 MiB a stream)
//                        ├──► LineTail (stderr)
//                        └──► rate limit ──► batch, at most every 50 ms ──► on_lines
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/clock.h"
#include "runtime/net/io_loop.h"
#include "runtime/net/unique_fd.h"
#include "runtime/result.h"
#include "worker/logs/log_file.h"

namespace volador {
class JobThread;
}

namespace volador::worker {

struct LogLimits {
  LogFileLimits file;
  double lines_per_second = 500;  // To the head, a stream; beyond its burst lines are counted, not sent.
  double lines_burst = 2000;
  double read_bytes_per_second = 8 << 20;  // Of a flood: then the pipe fills and the program waits in write.
  double read_bytes_burst = 16 << 20;
  std::chrono::milliseconds batch_delay{50};
  size_t batch_bytes_max = 256 << 10;
  size_t unwritten_bytes_max = 1 << 20;  // Of a stream, while its disk takes nothing: then it is read no further.
};

struct LogBatch {
  bool is_stderr = false;
  std::vector<std::string> lines;
  std::vector<BootTime> read_at;  // Of each line.
  uint64_t dropped = 0;           // Left out before these.
};

// Loop thread only.
class LogCapture {
 public:
  using OnLines = std::function<void(LogBatch)>;

  // Files: stem + ".out" and ".err", written on `disk`, which outlives it; null: none. `on_lines` is not called any more after close().
  LogCapture(net::IoLoop& loop, JobThread* disk, const std::filesystem::path& stem, OnLines on_lines, LogLimits limits = {});
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  struct Ends {
    net::UniqueFd out;
    net::UniqueFd err;
  };
  struct Pipes {
    Ends read;
    Ends write;  // For the host.
  };
  // Close-on-exec, the read ends non-blocking. kUnavailable: out of descriptors.
  [[nodiscard]] static Result<Pipes> make_pipes();
  // Makes pipes and begins to read; the write ends. kUnavailable: as above, or the loop cannot watch them.
  [[nodiscard]] Result<Ends> open();
  // Begins to read from the pipes of a host that stands already.
  [[nodiscard]] Result<void> adopt(Ends read);

  // Reads what lies in the pipes (at most 1 MiB each), hands all of it on and closes them. For the end of a host.
  void close();
  [[nodiscard]] std::string stderr_tail() const;

 private:
  struct Stream;
  std::shared_ptr<Stream> out_;
  std::shared_ptr<Stream> err_;
};

}  // namespace volador::worker
