#include "runtime/net/server_connection.h"

#include <array>
#include <utility>
#include <vector>

#include "runtime/block_pool.h"
#include "runtime/net/held_writes.h"

namespace volador::net {
namespace {

CalleeLimits limits_of(const ServerOptions& options) {
  return {.calls_max = options.calls_max,
          .calls_first = options.calls_first,
          .calls_least = options.calls_least,
          .bytes_max = options.bytes_max,
          .later_max = options.later_max,
          .replies_bytes_aim = options.replies_bytes_aim,
          .replies_bytes_max = options.replies_bytes_max};
}

}  // namespace

ServerConnection::ServerConnection(std::shared_ptr<ServerSide> server, std::unique_ptr<Stream> stream, Peer peer,
                                   std::function<void()> on_proved)
    : StreamEnd(server->loop, State::kHandshake),
      server_(std::move(server)),
      peer_(std::move(peer)),
      on_proved_(std::move(on_proved)),
      core_(limits_of(server_->options)) {
  stream_ = std::move(stream);
}

void ServerConnection::start() {
  handshake_timer_ =
      loop_.add_timer(loop_.now() + server_->options.handshake_timeout, [self = self_as<ServerConnection>()] {
        self->end({ErrorCode::kUnauthenticated, "the handshake took too long"});
      });
  begin();
}

void ServerConnection::on_open() {
  if (!peer_.local) peer_.identity = stream_->identity();
  if (on_proved_) loop_.post(std::exchange(on_proved_, {}));  // Runs after the mutex is unlocked.
}

void ServerConnection::check_peer() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kOpen) return;  // A running handshake ends with a check.
  }
  if (auto checked = stream_->check_peer(); !checked) end(std::move(checked).error());
}

// Work requested by a batch, done after unlocking the mutex.
struct ServerConnection::Asked {
  ~Asked() {
    for (const auto& unused : responders) {
      if (unused) unused->replied.store(true);  // For a call that was not accepted: no reply is expected.
    }
  }

  // At the index of the batch's frame, if it is a call.
  std::array<std::shared_ptr<CallResponder>, FrameReader::kBatch> responders;
  std::array<IncomingCall, FrameReader::kBatch> calls;
  size_t count = 0;               // Number of calls.
  std::optional<size_t> back_of;  // Calls received before the caller requested the return of unbegun ones.
  std::vector<std::function<void()>> cancels;
  std::vector<std::shared_ptr<CallResponder>> cancelled;  // May be the last owners: not to end with the mutex held.
};

Result<bool> ServerConnection::on_batch(FrameReader::Batch& batch) {
  Asked asked;
  Result<void> taken;
  for (size_t i = 0; i < batch.count; ++i) {  // Before locking the mutex, for which the actor's thread may wait.
    if (batch.frames[i].kind == FrameKind::kCall)
      asked.responders[i] = std::allocate_shared<CallResponder>(
          PooledAllocator<CallResponder>(), self_as<ServerConnection>(), batch.frames[i].request_id);
  }
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kOpen) return make_error(ErrorCode::kUnavailable, "ended");
    for (size_t i = 0; i < batch.count && taken; ++i) taken = take(batch.frames[i], asked.responders[i], asked);
    if (handshake_timer_ != 0 && core_.hello()) {
      peer_.caller = core_.hello()->caller;
      loop_.cancel_timer(std::exchange(handshake_timer_, 0));
      server_->on_hello(*this);
    }
  }
  const std::span<IncomingCall> calls(asked.calls.data(), asked.count);
  const size_t before = asked.back_of.value_or(asked.count);
  if (before > 0) server_->handler(calls.first(before));
  if (asked.back_of && server_->options.give_back) server_->options.give_back();
  if (before < asked.count) server_->handler(calls.subspan(before));
  for (const auto& cancel : asked.cancels) cancel();
  if (!taken) return make_error(std::move(taken).error());
  const std::lock_guard lock(mutex_);
  return core_.wants_input();
}

Result<void> ServerConnection::take(Frame& frame, std::shared_ptr<CallResponder>& responder, Asked& asked) {
  const auto event = core_.on_frame(frame);
  if (!event) return make_error(std::move(event).error());
  if (event->call) {
    *event->call = responder.get();
    asked.calls[asked.count++] = {&frame.call, std::move(responder)};
  } else if (event->cancel) {
    auto running = static_cast<CallResponder*>(event->cancel)->weak_from_this().lock();
    if (running == nullptr) return {};
    running->is_cancelled.store(true);
    if (running->cancel_function) asked.cancels.push_back(std::exchange(running->cancel_function, {}));
    asked.cancelled.push_back(std::move(running));
  } else if (event->give_back) {
    asked.back_of = asked.count;
  }
  return {};
}

void ServerConnection::reply(CallResponder& responder, Result<std::string>&& result) {
  std::function<void()> dropped;
  Lock lock(mutex_);
  dropped = std::exchange(responder.cancel_function, {});
  if (state_ == State::kDown) return;
  core_.on_reply(responder.request_id, std::move(result));
  flush_as_fits(lock, core_.running() + 1, AnswersInARow::of_thread() && core_.running() > 0);
}

void ServerConnection::on_cancel(CallResponder& responder, std::function<void()> function) {
  {
    const std::lock_guard lock(mutex_);
    if (responder.keep(function)) return;
  }
  function();
}

void ServerConnection::answer_later(CallResponder& responder) {
  Lock lock(mutex_);
  if (state_ == State::kDown) return;
  core_.on_answer_later(responder.request_id);
  flush_as_fits(lock, core_.running() + 1, AnswersInARow::of_thread() && core_.running() > 0);
}

void ServerConnection::say_goodbye(std::string_view why) {
  Lock lock(mutex_);
  if (state_ != State::kOpen) return;
  core_.say_goodbye(why);
  flush(lock);
}

void ServerConnection::end(Error why) {
  std::vector<std::shared_ptr<CallResponder>> running;
  std::vector<std::function<void()>> cancels;
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kDown) return;
    state_ = State::kDown;
    loop_.cancel_timer(std::exchange(handshake_timer_, 0));
    unwatch();
    core_.for_each_running([&](void* noted) {
      if (auto responder = static_cast<CallResponder*>(noted)->weak_from_this().lock())
        running.push_back(std::move(responder));
    });
    for (const auto& responder : running) {
      responder->is_lost.store(true);
      responder->is_cancelled.store(true);
      if (responder->cancel_function) cancels.push_back(std::exchange(responder->cancel_function, {}));
    }
  }
  for (const auto& cancel : cancels) cancel();
  const auto self = self_as<ServerConnection>();  // The server releases its reference.
  server_->on_end(*this, why);
}

}  // namespace volador::net
