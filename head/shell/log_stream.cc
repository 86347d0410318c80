#include "head/shell/log_stream.h"

#include <fmt/format.h>

#include "runtime/control/status.h"
#include "runtime/quantities.h"

namespace volador::head {

grpc::ServerWriteReactor<v1::LogLine>* LogStream::start(std::function<void()> on_end) {
  on_end_ = std::move(on_end);
  self_ = shared_from_this();
  StartSendInitialMetadata();
  return this;
}

bool LogStream::send(v1::LogLine line) {
  std::lock_guard lock(mutex_);
  if (closing_ || finished_) return false;
  if (queue_.size() >= kQueueMax) {
    ++left_out_;
    return true;
  }
  if (left_out_ > 0) {
    v1::LogLine note = line;
    note.set_text(
        fmt::format("[{} left out: this client reads too slowly]", counted(std::exchange(left_out_, 0), "line")));
    queue_.push_back(std::move(note));
  }
  queue_.push_back(std::move(line));
  write_next();
  return true;
}

void LogStream::finish(Result<void> result) {
  std::lock_guard lock(mutex_);
  if (closing_ || finished_) return;
  closing_ = true;
  if (!result) status_ = control::to_status(result.error());
  finish_when_written();
}

bool LogStream::ended() const {
  std::lock_guard lock(mutex_);
  return closing_ || finished_;
}

void LogStream::write_next() {
  if (writing_ || queue_.empty() || cancelled_ || finished_) return;
  writing_ = true;
  StartWrite(&queue_.front());
}

void LogStream::finish_when_written() {
  if (finished_ || writing_ || (!queue_.empty() && !cancelled_)) return;
  finished_ = true;
  Finish(status_);
}

void LogStream::OnWriteDone(bool ok) {
  std::lock_guard lock(mutex_);
  writing_ = false;
  queue_.pop_front();
  if (!ok) cancelled_ = true;
  if (cancelled_) closing_ = true;
  write_next();
  if (closing_) finish_when_written();
}

void LogStream::OnCancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  closing_ = true;
  finish_when_written();
}

void LogStream::OnDone() {
  if (on_end_) on_end_();
  on_end_ = nullptr;
  auto last = std::move(self_);
}

}  // namespace volador::head
