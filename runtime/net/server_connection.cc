#include "runtime/net/server_connection.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <utility>
#include <vector>

namespace volador::net {
namespace {

constexpr size_t kPartsMax = 64;       // Of one writev.
constexpr size_t kDirectCallsMax = 4;  // With more calls running, the loop gathers replies into one write.

CalleeLimits limits_of(const ServerOptions& options) {
  return {.calls_max = options.calls_max,
          .bytes_max = options.bytes_max,
          .replies_bytes_aim = options.replies_bytes_aim,
          .replies_bytes_max = options.replies_bytes_max};
}

}  // namespace

class CallResponder final : public Responder, public std::enable_shared_from_this<CallResponder> {
 public:
  CallResponder(std::shared_ptr<ServerConnection> connection, uint64_t id)
      : connection_(std::move(connection)), request_id(id) {}
  ~CallResponder() override {
    reply(make_error(ErrorCode::kUnknownOutcome,
                     "the host dropped the call without an answer; it may have been executed"));
  }

  void reply(Result<std::string> result) override {
    if (!replied.exchange(true)) connection_->reply(*this, std::move(result));
  }
  bool cancelled() const override { return is_cancelled.load(); }
  void on_cancel(std::function<void()> function) override { connection_->on_cancel(*this, std::move(function)); }
  const Peer& peer() const override { return connection_->peer(); }

 private:
  const std::shared_ptr<ServerConnection> connection_;

 public:  // For the connection.
  const uint64_t request_id;
  std::atomic<bool> replied{false};
  std::atomic<bool> is_cancelled{false};
  std::function<void()> cancel_function;  // Guarded by the connection's mutex.
};

ServerConnection::ServerConnection(std::shared_ptr<ServerSide> server, std::unique_ptr<Stream> stream, Peer peer)
    : server_(std::move(server)),
      loop_(server_->loop),
      stream_(std::move(stream)),
      peer_(std::move(peer)),
      core_(limits_of(server_->options)) {}

void ServerConnection::start() {
  handshake_timer_ = loop_.add_timer(loop_.now() + server_->options.handshake_timeout, [self = shared_from_this()] {
    self->end({ErrorCode::kUnauthenticated, "the handshake took too long"});
  });
  events_ = EPOLLIN;
  if (auto watched = loop_.watch(stream_->fd(), events_, shared_from_this()); !watched) return end(watched.error());
  go_on_handshake();
}

void ServerConnection::go_on_handshake() {
  auto progress = stream_->handshake();
  if (!progress) return end(std::move(progress).error());
  const std::lock_guard lock(mutex_);
  blocked_ = *progress == Stream::Handshake::kWantsWrite;
  want();
  if (*progress != Stream::Handshake::kDone || state_ != State::kHandshake) return;
  if (!peer_.local) peer_.identity = stream_->identity();
  state_ = State::kOpen;
  flush();
}

void ServerConnection::on_events(uint32_t events) {
  State state{};
  {
    const std::lock_guard lock(mutex_);
    state = state_;
  }
  if (state == State::kHandshake) {
    go_on_handshake();
    const std::lock_guard lock(mutex_);
    state = state_;
  }
  if (state != State::kOpen) return;
  if ((events & EPOLLOUT) != 0) {
    const std::lock_guard lock(mutex_);
    blocked_ = false;
    flush();
  }
  if ((events & ~static_cast<uint32_t>(EPOLLOUT)) != 0) read();
}

void ServerConnection::read() {
  std::vector<std::pair<CallRequest, std::shared_ptr<CallResponder>>> calls;
  std::vector<std::function<void()>> cancels;
  std::vector<std::shared_ptr<CallResponder>> cancelled;
  const auto outcome = reader_.read(*stream_, loop_.read_buffer(), [&](FrameReader::Batch& batch) -> Result<bool> {
    Result<void> taken;
    {
      const std::lock_guard lock(mutex_);
      if (state_ != State::kOpen) return make_error(ErrorCode::kUnavailable, "ended");
      for (size_t i = 0; i < batch.count && taken; ++i) {
        auto event = core_.on_frame(std::move(batch.frames[i]));
        if (!event) {
          taken = make_error(std::move(event).error());
        } else if (event->call) {
          const uint64_t id = event->call->request_id;
          auto responder = std::make_shared<CallResponder>(shared_from_this(), id);
          responders_.insert(id, responder);
          calls.emplace_back(std::move(*event->call), std::move(responder));
        } else if (event->cancel) {
          const auto* entry = responders_.find(*event->cancel);
          auto responder = entry != nullptr ? entry->lock() : nullptr;
          if (responder == nullptr) continue;
          responder->is_cancelled.store(true);
          if (responder->cancel_function) cancels.push_back(std::exchange(responder->cancel_function, {}));
          cancelled.push_back(std::move(responder));  // Perhaps its last owner: it must not end under the mutex.
        }
      }
      if (handshake_timer_ != 0 && core_.hello()) {
        peer_.caller = core_.hello()->caller;
        loop_.cancel_timer(std::exchange(handshake_timer_, 0));
        server_->on_hello(*this);
      }
    }
    for (auto& [request, responder] : calls) server_->handler(std::move(request), std::move(responder));
    calls.clear();
    for (const auto& cancel : cancels) cancel();
    cancels.clear();
    cancelled.clear();
    if (!taken) return make_error(std::move(taken).error());
    const std::lock_guard lock(mutex_);
    return core_.wants_input();
  });
  if (outcome.ended) return end(outcome.why);
  const std::lock_guard lock(mutex_);
  if (state_ != State::kOpen) return;
  if (write_failed_ && !outcome.more) {
    loop_.post([self = shared_from_this()] { self->end({ErrorCode::kUnavailable, "the caller takes no more bytes"}); });
    return;
  }
  if (!core_.outbox().empty()) flush_soon();
  if ((outcome.more || outcome.paused) && core_.wants_input()) read_soon();
  want();
}

void ServerConnection::read_soon() {
  loop_.post([self = shared_from_this()] { self->on_events(EPOLLIN); });
}

void ServerConnection::flush() {
  std::array<iovec, kPartsMax> parts;
  Outbox& outbox = core_.outbox();
  while (!outbox.empty() && !write_failed_ && !blocked_) {
    const size_t count = outbox.gather(parts);
    const StreamResult result = stream_->write({parts.data(), count});
    outbox.consume(result.bytes, result.touched);
    blocked_ = result.blocked;
    if (result.ended) {
      write_failed_ = true;
      read_soon();  // What the caller sent before it closed.
    }
  }
  want();
}

void ServerConnection::flush_soon() {
  if (flush_posted_ || blocked_) return;
  flush_posted_ = true;
  loop_.post([self = shared_from_this()] {
    const std::lock_guard lock(self->mutex_);
    self->flush_posted_ = false;
    if (self->state_ == State::kOpen) self->flush();
  });
}

// While the caller does not read its replies, nothing is read from it.
void ServerConnection::want() {
  const bool input = state_ == State::kHandshake || core_.wants_input();
  const uint32_t events =
      (input ? static_cast<uint32_t>(EPOLLIN) : 0U) | (blocked_ ? static_cast<uint32_t>(EPOLLOUT) : 0U);
  if (events == events_ || state_ == State::kEnded) return;
  if ((events & ~events_ & EPOLLIN) != 0) read_soon();  // TLS may hold bytes that no longer make the socket readable.
  events_ = events;
  loop_.change(stream_->fd(), events);
}

void ServerConnection::reply(CallResponder& responder, Result<std::string> result) {
  std::function<void()> dropped;
  const std::lock_guard lock(mutex_);
  dropped = std::exchange(responder.cancel_function, {});
  if (state_ == State::kEnded) return;
  responders_.extract(responder.request_id);
  core_.on_reply(responder.request_id, std::move(result));
  if (blocked_ || flush_posted_) return;
  if (core_.running() < kDirectCallsMax && !loop_.in_loop()) {
    flush();
  } else {
    flush_soon();
  }
}

void ServerConnection::on_cancel(CallResponder& responder, std::function<void()> function) {
  {
    const std::lock_guard lock(mutex_);
    if (responder.replied.load()) return;
    if (!responder.is_cancelled.load()) {
      responder.cancel_function = std::move(function);
      return;
    }
  }
  function();
}

void ServerConnection::say_goodbye(std::string_view why) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kOpen) return;
  core_.say_goodbye(why);
  flush();
}

void ServerConnection::end(Error why) {
  std::vector<std::shared_ptr<CallResponder>> running;
  std::vector<std::function<void()>> cancels;
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kEnded) return;
    state_ = State::kEnded;
    loop_.cancel_timer(std::exchange(handshake_timer_, 0));
    loop_.unwatch(stream_->fd());
    stream_->shut_down();
    responders_.for_each([&](uint64_t, std::weak_ptr<CallResponder>& entry) {
      if (auto responder = entry.lock()) running.push_back(std::move(responder));
    });
    responders_.clear();
    for (const auto& responder : running) {
      responder->is_cancelled.store(true);
      if (responder->cancel_function) cancels.push_back(std::exchange(responder->cancel_function, {}));
    }
  }
  for (const auto& cancel : cancels) cancel();
  const auto self = shared_from_this();  // The server lets go of it.
  server_->on_end(*this, why);
}

}  // namespace volador::net
