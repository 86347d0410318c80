#include "runtime/net/stream_end.h"

#include <sys/epoll.h>

#include <array>

namespace volador::net {
namespace {

constexpr size_t kPartsMax = 64;  // Of one writev.
constexpr size_t kRoundsMax = 2;  // Writes of one thread that is not the loop's.

}  // namespace

void StreamEnd::begin() {
  Result<void> watched;
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kHandshake) return;
    events_ = EPOLLIN;
    watched = loop_.watch(stream_->fd(), events_, shared_from_this());
  }
  if (!watched) return end(std::move(watched).error());
  go_on_handshake();
}

void StreamEnd::go_on_handshake() {
  auto progress = stream_->handshake();
  if (!progress) return end(std::move(progress).error());
  Lock lock(mutex_);
  if (state_ != State::kHandshake) return;
  blocked_ = *progress == Stream::Handshake::kWantsWrite;
  want();
  if (*progress != Stream::Handshake::kDone) return;
  state_ = State::kOpen;
  on_open();
  flush(lock);
}

void StreamEnd::on_events(uint32_t events) {
  State state{};
  {
    const std::lock_guard lock(mutex_);
    state = state_;
  }
  if (state == State::kConnecting) return on_connecting();
  if (state == State::kHandshake) {
    go_on_handshake();
    const std::lock_guard lock(mutex_);
    state = state_;
  }
  if (state != State::kOpen) return;
  if ((events & EPOLLOUT) != 0) {
    Lock lock(mutex_);
    blocked_ = false;
    flush(lock);
  }
  if ((events & ~static_cast<uint32_t>(EPOLLOUT)) != 0) read();
}

void StreamEnd::read() {
  const auto outcome =
      reader_.read(*stream_, loop_.read_buffer(), [this](FrameReader::Batch& batch) { return on_batch(batch); });
  if (outcome.bytes > 0) last_read_ = loop_.now();
  if (outcome.ended) return end(outcome.why);
  Lock lock(mutex_);
  if (state_ != State::kOpen) return;
  if (write_failed_ && !outcome.more) {
    loop_.post([self = shared_from_this()] { self->end({ErrorCode::kUnavailable, "the peer takes no more bytes"}); });
    return;
  }
  flush(lock);
  if (state_ != State::kOpen) return;
  if ((outcome.more || outcome.paused) && wants_input()) read_soon();
}

void StreamEnd::read_soon() {
  loop_.post([self = shared_from_this()] { self->on_events(EPOLLIN); });
}

void StreamEnd::flush(Lock& lock) {
  if (writing_) return;
  writing_ = true;
  std::array<iovec, kPartsMax> parts;
  Outbox& out = outbox();
  for (size_t round = 0; !out.empty() && !write_failed_ && !blocked_; ++round) {
    if (round == kRoundsMax && !loop_.in_loop()) {  // No thread is kept for the calls of others.
      flush_soon();
      break;
    }
    const size_t count = out.gather(parts);
    lock.unlock();
    const StreamResult result = stream_->write({parts.data(), count});
    lock.lock();
    out.consume(result.bytes, result.touched);
    if (state_ == State::kDown) break;
    blocked_ = result.blocked;
    if (result.ended) {
      write_failed_ = true;
      read_soon();
    }
  }
  writing_ = false;
  want();
}

void StreamEnd::flush_soon() {
  if (flush_posted_ || blocked_) return;
  flush_posted_ = true;
  loop_.post([self = shared_from_this()] {
    Lock lock(self->mutex_);
    self->flush_posted_ = false;
    if (self->state_ == State::kOpen) self->flush(lock);
  });
}

void StreamEnd::flush_as_fits(Lock& lock, size_t unanswered) {
  if (state_ != State::kOpen || outbox().empty() || writing_ || blocked_ || flush_posted_) return;
  if (unanswered <= kDirectCallsMax && !loop_.in_loop()) {
    flush(lock);
  } else {
    flush_soon();
  }
}

// While the peer does not read what it gets, nothing may be read from it.
void StreamEnd::want() {
  const bool input = state_ == State::kHandshake || wants_input();
  const uint32_t events =
      (input ? static_cast<uint32_t>(EPOLLIN) : 0U) | (blocked_ ? static_cast<uint32_t>(EPOLLOUT) : 0U);
  if (events == events_ || state_ == State::kDown) return;
  if ((events & ~events_ & EPOLLIN) != 0) read_soon();  // TLS may hold bytes that no longer make the socket readable.
  events_ = events;
  loop_.change(stream_->fd(), events);
}

void StreamEnd::unwatch() {
  loop_.unwatch(stream_->fd());
  stream_->shut_down();
}

}  // namespace volador::net
