#include "worker/logs/log_capture.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/job_thread.h"
#include "worker/core/rate_limit.h"
#include "worker/logs/line_splitter.h"

namespace volador::worker {

namespace {

Result<void> make_pipe(net::UniqueFd& read_end, net::UniqueFd& write_end) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("no pipe for the output of a host: {}", std::strerror(errno)));
  }
  read_end.reset(ends[0]);
  write_end.reset(ends[1]);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {};
}

}  // namespace

struct LogCapture::Stream final : net::Pollable, std::enable_shared_from_this<Stream> {
  Stream(net::IoLoop& io, JobThread* disk, const std::filesystem::path& path, bool stderr_stream, OnLines lines,
         const LogLimits& bounds)
      : loop(io),
        is_stderr(stderr_stream),
        on_lines(std::move(lines)),
        limits(bounds),
        sending(bounds.lines_per_second, bounds.lines_burst),
        reading(bounds.read_bytes_per_second, bounds.read_bytes_burst),
        writer(disk) {
    if (disk != nullptr) file = std::make_shared<LogFile>(path, bounds.file);
  }

  Result<void> adopt(net::UniqueFd read_end) {
    fd = std::move(read_end);
    VOLADOR_TRY(loop.watch(fd.get(), EPOLLIN, shared_from_this()));
    watched = true;
    return {};
  }

  void on_events(uint32_t) override {
    if (!fd || !watched) return;
    const auto buffer = loop.read_buffer();
    const ssize_t got = ::read(fd.get(), buffer.data(), std::min<size_t>(buffer.size(), 64 << 10));
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return end();
    take(std::string_view(buffer.data(), static_cast<size_t>(got)));
    const auto wait = reading.spend(loop.now(), static_cast<double>(got));
    if (wait > std::chrono::nanoseconds(0)) {
      pause_timer = loop.add_timer(loop.now() + wait, [self = shared_from_this()] {
        self->pause_timer = 0;
        self->watch_again();
      });
    }
    if (is_paused()) {
      loop.unwatch(fd.get());
      watched = false;
    }
  }

  // While paused, the pipe fills and the program blocks in write: its output exceeds the rate limit or the disk's
  // speed.
  bool is_paused() const { return pause_timer != 0 || unwritten > limits.unwritten_bytes_max; }
  void watch_again() {
    if (fd && !watched && !is_paused()) watched = loop.watch(fd.get(), EPOLLIN, shared_from_this()).has_value();
  }

  void take(std::string_view bytes) {
    for (std::string& line : splitter.feed(bytes)) add(std::move(line));
    write();
  }

  void write() {
    if (block.empty()) return;
    const size_t bytes = block.size();
    unwritten += bytes;
    writer->post([file = file, lines = std::exchange(block, {}), bytes, weak = weak_from_this()]() -> JobThread::Then {
      file->write(lines);
      return [weak, bytes] {
        const auto self = weak.lock();
        if (!self) return;
        self->unwritten -= bytes;
        self->watch_again();
      };
    });
  }

  void add(std::string line) {
    if (file) (block += line) += '\n';
    if (is_stderr) tail.add(line);
    if (dropping || !sending.take(loop.now(), 1)) {
      dropping = true;  // Until the next batch: one count per gap.
      ++dropped_after;
    } else {
      batch_bytes += line.size();
      batch.lines.push_back(std::move(line));
      batch.read_at.push_back(loop.now());
      if (batch_bytes >= limits.batch_bytes_max) return hand_on();
    }
    arm();
  }

  void arm() {
    if (batch_timer != 0) return;
    batch_timer = loop.add_timer(loop.now() + limits.batch_delay, [self = shared_from_this()] {
      self->batch_timer = 0;
      self->hand_on();
    });
  }

  void hand_on() {
    if (batch_timer != 0) loop.cancel_timer(std::exchange(batch_timer, 0));
    if (batch.lines.empty() && batch.dropped == 0 && dropped_after == 0) return;
    LogBatch full = std::exchange(batch, {});
    full.is_stderr = is_stderr;
    batch_bytes = 0;
    batch.dropped = std::exchange(dropped_after, 0);
    dropping = false;
    if (batch.dropped > 0) arm();
    if (on_lines && (!full.lines.empty() || full.dropped > 0)) on_lines(std::move(full));
  }

  void end() {
    if (watched) loop.unwatch(fd.get());
    watched = false;
    if (pause_timer != 0) loop.cancel_timer(std::exchange(pause_timer, 0));
    fd.reset();
    for (std::string& line : splitter.flush()) add(std::move(line));
    write();
  }

  void close() {
    for (size_t total = 0; fd && total < (1 << 20);) {
      const auto buffer = loop.read_buffer();
      const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
      if (got <= 0) break;
      total += static_cast<size_t>(got);
      take(std::string_view(buffer.data(), static_cast<size_t>(got)));
    }
    end();
    hand_on();
    hand_on();  // Reports the lines dropped last.
    on_lines = nullptr;
  }

  net::IoLoop& loop;
  const bool is_stderr;
  OnLines on_lines;
  const LogLimits limits;
  RateLimit sending;
  RateLimit reading;
  JobThread* const writer;        // Null: no file.
  std::shared_ptr<LogFile> file;  // Used by the writer.
  std::string block;              // Lines for the next write.
  size_t unwritten = 0;           // Bytes passed to the writer and not yet written.
  net::UniqueFd fd;
  bool watched = false;
  LineSplitter splitter;
  LineTail tail;
  LogBatch batch;
  size_t batch_bytes = 0;
  uint64_t dropped_after = 0;  // Lines dropped after those of `batch`.
  bool dropping = false;
  net::IoLoop::TimerId batch_timer = 0;
  net::IoLoop::TimerId pause_timer = 0;
};

LogCapture::LogCapture(net::IoLoop& loop, JobThread* disk, const std::filesystem::path& stem, OnLines on_lines,
                       LogLimits limits)
    : out_(std::make_shared<Stream>(loop, disk, stem.string() + ".out", false, on_lines, limits)),
      err_(std::make_shared<Stream>(loop, disk, stem.string() + ".err", true, std::move(on_lines), limits)) {}

LogCapture::~LogCapture() {
  out_->on_lines = nullptr;
  err_->on_lines = nullptr;
  close();
}

Result<LogCapture::Pipes> LogCapture::make_pipes() {
  Pipes pipes;
  VOLADOR_TRY(make_pipe(pipes.read.out, pipes.write.out));
  VOLADOR_TRY(make_pipe(pipes.read.err, pipes.write.err));
  return pipes;
}

Result<LogCapture::Ends> LogCapture::open() {
  auto pipes = make_pipes();
  if (!pipes) return make_error(pipes.error());
  VOLADOR_TRY(adopt(std::move(pipes->read)));
  return std::move(pipes->write);
}

Result<void> LogCapture::adopt(Ends read) {
  VOLADOR_TRY(out_->adopt(std::move(read.out)));
  return err_->adopt(std::move(read.err));
}

void LogCapture::close() {
  out_->close();
  err_->close();
}

std::string LogCapture::stderr_tail() const { return err_->tail.text(); }

}  // namespace volador::worker
