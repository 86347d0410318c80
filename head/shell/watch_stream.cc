#include "head/shell/watch_stream.h"

#include "runtime/control/status.h"

namespace volador::head {

grpc::ServerWriteReactor<v1::WatchReply>* WatchStream::start() {
  self_ = shared_from_this();
  StartSendInitialMetadata();
  return this;
}

void WatchStream::follow(Hooks hooks) {
  {
    std::lock_guard lock(mutex_);
    if (!done_) {
      hooks_ = std::move(hooks);
      return;
    }
  }
  hooks.on_end();
}

bool WatchStream::busy() const {
  std::lock_guard lock(mutex_);
  return writing_ || closing_ || finished_;
}

void WatchStream::send(v1::WatchReply message) {
  std::lock_guard lock(mutex_);
  if (writing_ || closing_ || finished_) return;
  message_ = std::move(message);
  writing_ = true;
  StartWrite(&message_);
}

void WatchStream::finish(Result<void> result) {
  std::lock_guard lock(mutex_);
  if (closing_ || finished_) return;
  closing_ = true;
  if (!result) status_ = control::to_status(result.error());
  finish_when_written();
}

void WatchStream::finish_when_written() {
  if (finished_ || writing_) return;
  finished_ = true;
  Finish(status_);
}

void WatchStream::OnWriteDone(bool ok) {
  std::function<void()> written;
  {
    std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) closing_ = true;
    if (closing_) return finish_when_written();
    written = hooks_.on_written;
  }
  if (written) written();
}

void WatchStream::OnCancel() {
  std::lock_guard lock(mutex_);
  closing_ = true;
  finish_when_written();
}

void WatchStream::OnDone() {
  Hooks hooks;
  {
    std::lock_guard lock(mutex_);
    done_ = true;
    hooks = std::exchange(hooks_, {});
  }
  if (hooks.on_end) hooks.on_end();
  auto last = std::move(self_);
}

}  // namespace volador::head
