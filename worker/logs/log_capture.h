// Captures the output of one host from two pipes into rotated files, batches for the head, and the tail for a death
// cause.
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

// Limits of captured output.
struct LogLimits {
  LogFileLimits file;
  double lines_per_second = 500;  // Per stream to the head; beyond the burst lines are counted and dropped.
  double lines_burst = 2000;
  double read_bytes_per_second = 64 << 20;  // For floods: beyond it the pipe fills and the program blocks.
  double read_bytes_burst = 64 << 20;
  std::chrono::milliseconds batch_delay{50};
  size_t batch_bytes_max = 256 << 10;
  size_t unwritten_bytes_max = 1 << 20;  // Per stream, while its disk is blocked: beyond it reading pauses.
};

// Lines of one stream for the head.
struct LogBatch {
  bool is_stderr = false;
  std::vector<std::string> lines;
  std::vector<BootTime> read_at;  // Time of each line.
  uint64_t dropped = 0;           // Lines dropped before these.
};

// Captures the output of one host. Loop thread only.
class LogCapture {
 public:
  using OnLines = std::function<void(LogBatch)>;

  // Files: stem + ".out" and ".err", written on `disk`, which outlives this object; null: none. `on_lines` is not
  // called after close().
  LogCapture(net::IoLoop& loop, JobThread* disk, const std::filesystem::path& stem, OnLines on_lines,
             LogLimits limits = {});
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
  // Creates close-on-exec pipes with non-blocking read ends. kUnavailable: out of descriptors.
  [[nodiscard]] static Result<Pipes> make_pipes();
  // Creates pipes and starts reading; returns the write ends. kUnavailable: as above, or the loop cannot watch them.
  [[nodiscard]] Result<Ends> open();
  // Starts reading from the pipes of an existing host.
  [[nodiscard]] Result<void> adopt(Ends read);

  // Reads the remaining data (at most 1 MiB per pipe), passes it on and closes the pipes. For the end of a host.
  void close();
  [[nodiscard]] std::string stderr_tail() const;

 private:
  struct Stream;
  std::shared_ptr<Stream> out_;
  std::shared_ptr<Stream> err_;
};

}  // namespace volador::worker
