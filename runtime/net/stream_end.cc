#include "runtime/net/stream_end.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/net/held_writes.h"
#include "runtime/once_event.h"

namespace volador::net {
namespace {

constexpr size_t kPartsMax = 64;                   // Per writev.
constexpr size_t kRoundsMax = 2;                   // Writes by a thread other than the loop's.
constexpr size_t kHeldBytesMax = size_t{4} << 10;  // About 50 small calls: more saves little and delays the peer.
constexpr size_t kDirectBytesMax = size_t{64} << 10;
constexpr size_t kHeldEndsMax = 16;  // Per thread.
constexpr auto kHeldFor = std::chrono::milliseconds(1);

std::atomic<uint64_t> last_serial{0};

}  // namespace

// Connections with writes held by this thread.
struct StreamEnd::Held {
  struct One {
    uint64_t serial;
    std::weak_ptr<StreamEnd> end;
  };
  std::vector<One> all;

  ~Held() {
    write_held();
    gone = true;
  }
  static Held& of_thread() {
    thread_local Held held;
    return held;
  }
  static inline thread_local bool gone = false;  // The thread is ending.
};

void write_held() { StreamEnd::write_held(); }

void StreamEnd::write_held() {
  if (Held::gone || Held::of_thread().all.empty()) return;
  auto all = std::exchange(Held::of_thread().all, {});  // Connections that end here may make calls.
  for (const Held::One& one : all) {
    const auto end = one.end.lock();
    if (!end) continue;
    Lock lock(end->mutex_);
    --end->holders_;
    if (end->state_ == State::kOpen && !end->is_held()) end->flush(lock);
  }
  all.clear();
  if (auto& others = Held::of_thread().all; others.empty()) others.swap(all);  // Reuses its memory.
}

StreamEnd::StreamEnd(IoLoop& loop, State first) : loop_(loop), state_(first), serial_(last_serial.fetch_add(1)) {
  reader_.set_rooms([this](uint64_t request_id, size_t payload_bytes) { return room(request_id, payload_bytes); });
}

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
  std::optional<WakesTogether> together(std::in_place);
  const auto outcome =
      reader_.read(*stream_, loop_.read_buffer(), [&](FrameReader::Batch& batch) { return on_batch(batch); });
  together.reset();
  if (outcome.bytes > 0) last_read_ = loop_.now();
  if (outcome.ended) return end(outcome.why);
  Lock lock(mutex_);
  if (state_ != State::kOpen) return;
  if (write_failed_ && !outcome.more) {
    loop_.post([self = shared_from_this()] { self->end({ErrorCode::kUnavailable, "the peer takes no more bytes"}); });
    return;
  }
  if (!is_held()) flush(lock);
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
    if (round > 0 && is_held()) break;
    if (round == kRoundsMax && !loop_.in_loop()) {  // Do not occupy a thread with the calls of others.
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
  loop_.post([self = shared_from_this()] { self->flush_as_told(self->flush_posted_); });
}

void StreamEnd::flush_as_told(bool& told) {
  Lock lock(mutex_);
  told = false;
  if (state_ == State::kOpen) flush(lock);
}

void StreamEnd::flush_as_fits(Lock& lock, size_t unanswered, bool more_follows) {
  if (state_ != State::kOpen || outbox().empty() || blocked_) return;
  const size_t bytes = outbox().bytes();
  if (more_follows && bytes < kHeldBytesMax && !loop_.in_loop()) return hold();
  if (writing_ || flush_posted_) return;
  const bool direct = more_follows ? bytes < kDirectBytesMax : unanswered <= kDirectCallsMax;
  if (direct && !loop_.in_loop()) return flush(lock);
  flush_soon();
}

void StreamEnd::hold() {
  if (Held::gone) return flush_soon();
  auto& held = Held::of_thread().all;
  const bool known =
      std::any_of(held.begin(), held.end(), [this](const Held::One& one) { return one.serial == serial_; });
  if (!known) {
    if (held.size() >= kHeldEndsMax) return flush_soon();
    held.push_back({serial_, weak_from_this()});
    ++holders_;
  }
  if (std::exchange(held_timed_, true)) return;
  loop_.add_timer(loop_.now() + kHeldFor, [self = shared_from_this()] { self->flush_as_told(self->held_timed_); });
}

bool StreamEnd::is_held() {
  return (holders_ > 0 || peer_has_work()) && held_timed_ && outbox().bytes() < kHeldBytesMax;
}

// While the peer does not read, nothing is read from it.
void StreamEnd::want() {
  const bool input = state_ == State::kHandshake || wants_input();
  const uint32_t events =
      (input ? static_cast<uint32_t>(EPOLLIN) : 0U) | (blocked_ ? static_cast<uint32_t>(EPOLLOUT) : 0U);
  if (events == events_ || state_ == State::kDown) return;
  // TLS may have buffered bytes that do not make the socket readable.
  if ((events & ~events_ & EPOLLIN) != 0) read_soon();
  events_ = events;
  loop_.change(stream_->fd(), events);
}

void StreamEnd::unwatch() {
  loop_.unwatch(stream_->fd());
  stream_->shut_down();
}

}  // namespace volador::net
