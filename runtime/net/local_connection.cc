#include "runtime/net/local_connection.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "runtime/net/call_errors.h"
#include "runtime/net/frame.h"

namespace volador::net {
namespace {

thread_local bool inside_handler = false;  // A caller must not receive the reply before call() has returned.

}  // namespace

LocalCaller::LocalCaller(IoLoop& loop, CallHandler handler, Limits limits, ConnectionOptions options, std::string name,
                         std::function<void(Error)> on_down)
    : loop_(loop),
      handler_(std::move(handler)),
      limits_(limits),
      options_(std::move(options)),
      name_(std::move(name)),
      peer_{
          .caller = options_.caller, .local = true, .identity = fmt::format("uid {} pid {}", ::geteuid(), ::getpid())},
      on_down_(std::move(on_down)) {}

Result<void> LocalCaller::check(const CallRequest& request) const {
  if (down_) return make_error(*down_);
  if (call_bytes(request) > kFrameBytesMax) return make_error(arguments_too_large(request));
  return {};
}

void LocalCaller::call(CallRequest&& request, CallDone&& done) {
  const uint64_t id = request.request_id;
  const size_t bytes = call_bytes(request);
  Lock lock(mutex_);
  if (auto checked = check(request); !checked) return finish(std::move(done), make_error(std::move(checked).error()));
  Entry* const made = calls_.insert(id);
  if (made == nullptr) return finish(std::move(done), make_error(request_id_taken(request)));
  const bool goes_now = waiting_.empty() && !handing_over_ && has_room(bytes);
  if (!goes_now && !waiting_.empty() &&
      (waiting_.size() >= options_.waiting_calls_max || waiting_bytes_ + bytes > options_.waiting_bytes_max)) {
    calls_.erase(made);
    return finish(std::move(done), make_error(too_many_wait(request, name_, waiting_.size(), waiting_bytes_,
                                                            options_.waiting_calls_max, options_.waiting_bytes_max)));
  }
  Entry& entry = *made;
  entry.done = std::move(done);
  entry.bytes = bytes;
  if (request.timeout.count() > 0) {
    const BootTime now = loop_.now(), latest = BootTime::max();
    entry.deadline = request.timeout < latest - now ? now + request.timeout : latest;
    entry.timer = loop_.add_timer(entry.deadline, [weak = weak_from_this(), id] {
      if (const auto self = weak.lock()) self->expire(id);
    });
  }
  if (goes_now) {
    handing_over_ = true;
    auto response = begin(request, entry);
    hand_over(lock, std::move(request), std::move(response));
    return hand_over_waiting(lock);
  }
  waiting_bytes_ += bytes;
  entry.waiting = waiting_.insert(waiting_.end(), std::move(request));
  if (handing_over_) return;
  handing_over_ = true;
  hand_over_waiting(lock);
}

std::shared_ptr<LocalCaller::Response> LocalCaller::begin(CallRequest& request, Entry& entry) {
  if (entry.deadline != BootTime{})
    request.timeout = std::max(entry.deadline - loop_.now(), std::chrono::nanoseconds(1));
  auto response = std::make_shared<Response>(shared_from_this(), request.request_id);
  entry.sent = true;
  entry.response = response.get();
  ++running_;
  running_bytes_ += entry.bytes;
  return response;
}

// Unlocks while the handler runs; the lock is held again on return. Code in between may reply and call.
void LocalCaller::hand_over(Lock& lock, CallRequest&& request, std::shared_ptr<Response>&& response) {
  lock.unlock();
  const bool inside = std::exchange(inside_handler, true);
  {
    IncomingCall call{&request, std::move(response)};
    handler_({&call, 1});
  }  // State left by the handler is destroyed before locking.
  inside_handler = inside;
  lock.lock();
}

// Called when a reply has freed room.
void LocalCaller::hand_over_next(Lock& lock) {
  if (down_ || waiting_.empty() || handing_over_) return;
  handing_over_ = true;
  hand_over_waiting(lock);
}

void LocalCaller::hand_over_waiting(Lock& lock) {
  while (!down_ && !waiting_.empty()) {
    Entry& entry = *calls_.find(waiting_.front().request_id);
    if (!has_room(entry.bytes)) break;
    CallRequest request = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_bytes_ -= entry.bytes;
    auto response = begin(request, entry);
    hand_over(lock, std::move(request), std::move(response));
  }
  handing_over_ = false;
  if (down_) handed_over_.notify_all();
}

void LocalCaller::reply(Response& response, Result<std::string>&& result) {
  std::function<void()> dropped;
  Lock lock(mutex_);
  dropped = std::exchange(response.cancel_function, {});
  if (CallDone done = take_done(response)) finish(std::move(done), std::move(result));
  hand_over_next(lock);
}

// Delivers after replies that are queued for the loop's thread.
void LocalCaller::reply_here(Response& response, Result<std::string>&& result) {
  std::function<void()> dropped;
  CallDone done;
  {
    Lock lock(mutex_);
    dropped = std::exchange(response.cancel_function, {});
    done = take_done(response);
    if (done && (delivering_ || inside_handler)) finish(std::move(done), std::move(result));
    hand_over_next(lock);
  }
  if (done) done(as_sent(std::move(result)));
}

// Call with the mutex held. Empty: the caller has its result.
CallDone LocalCaller::take_done(Response& response) {
  if (down_) return {};
  Entry* const entry = calls_.find(response.request_id);
  if (entry->later) {
    --later_;
  } else {
    --running_;
    running_bytes_ -= entry->bytes;
  }
  if (entry->timer != 0) loop_.cancel_timer(entry->timer);
  CallDone done = std::move(entry->done);
  calls_.erase(entry);
  return done;
}

// Converts a result as if it had been sent over a connection.
Result<std::string> LocalCaller::as_sent(Result<std::string>&& result) {
  if (!result) {
    Error error = std::move(result).error();
    error.message.resize(sent_part(error.message).size());
    return make_error(std::move(error));
  }
  if (kFrameHeaderBytes + result->size() > kFrameBytesMax) return make_error(result_too_large(result->size()));
  return std::move(result);
}

void LocalCaller::finish(CallDone&& done, Result<std::string>&& result) {
  finished_.push_back({std::move(done), as_sent(std::move(result))});
  if (std::exchange(delivering_, true)) return;
  loop_.post([self = shared_from_this()] { self->deliver(); });
}

// Loop thread.
void LocalCaller::deliver() {
  std::vector<Finished> finished;
  Lock lock(mutex_);
  while (!finished_.empty()) {
    finished.swap(finished_);
    lock.unlock();
    for (Finished& one : finished) one.done(std::move(one.result));
    finished.clear();
    lock.lock();
  }
  delivering_ = false;
}

void LocalCaller::on_cancel(Response& response, std::function<void()> function) {
  {
    const std::lock_guard lock(mutex_);
    if (response.keep(function)) return;
  }
  function();
}

void LocalCaller::answer_later(Response& response) {
  Lock lock(mutex_);
  if (down_ || later_ >= limits_.later_max) return;
  Entry* const entry = calls_.find(response.request_id);
  if (entry == nullptr || std::exchange(entry->later, true)) return;
  ++later_;
  --running_;
  running_bytes_ -= entry->bytes;
  hand_over_next(lock);
}

void LocalCaller::cancel(const std::shared_ptr<Response>& response, Cancels& cancels) {
  if (response == nullptr) return;
  response->is_cancelled.store(true);
  if (response->cancel_function) cancels.functions.push_back(std::exchange(response->cancel_function, {}));
  cancels.responses.push_back(response);
}

// Reports the error to the caller; a sent call occupies its room until the handler replies.
void LocalCaller::abandon(Entry& entry, Error error, Cancels& cancels) {
  finish(std::move(entry.done), make_error(std::move(error)));
  if (entry.sent) return cancel(entry.response->weak_from_this().lock(), cancels);
  if (entry.timer != 0) loop_.cancel_timer(entry.timer);
  waiting_bytes_ -= entry.bytes;
  waiting_.erase(entry.waiting);
  calls_.erase(&entry);
}

// Cancel functions run on the loop's thread, as for other connections.
void LocalCaller::cancel(uint64_t request_id) {
  loop_.post([self = shared_from_this(), request_id] {
    Cancels cancels;
    {
      Lock lock(self->mutex_);
      Entry* entry = self->calls_.find(request_id);
      if (entry == nullptr || !entry->done) return;
      self->abandon(*entry, cancelled_by_caller(entry->sent), cancels);
      if (!std::exchange(self->handing_over_, true))
        self->hand_over_waiting(lock);  // A large call may have blocked the others.
    }
    cancels.run();
  });
}

void LocalCaller::expire(uint64_t request_id) {
  Cancels cancels;
  {
    Lock lock(mutex_);
    Entry* entry = calls_.find(request_id);
    if (entry == nullptr || !entry->done || entry->deadline > loop_.now()) return;
    abandon(*entry, timed_out(entry->sent, name_), cancels);
    if (!std::exchange(handing_over_, true)) hand_over_waiting(lock);
  }
  cancels.run();
}

void LocalCaller::close() {
  {
    const std::lock_guard lock(mutex_);
    on_down_ = {};
    if (down_) return;
  }
  shut(closed_by_this_process(name_), closed_by_this_process(name_));
}

void LocalCaller::end(const Error& why) {
  shut(not_sent(name_, why.message), lost_while_it_ran(name_, why.message));
  Lock lock(mutex_);
  handed_over_.wait(lock, [this] { return !handing_over_; });
  const auto on_down = std::exchange(on_down_, {});
  lock.unlock();
  if (on_down)
    loop_.post([on_down, error = Error{why.code, fmt::format("connection to {}: {}", name_, why.message)}] {
      on_down(error);
    });
}

void LocalCaller::shut(Error further, const Error& of_sent) {
  Cancels cancels;
  {
    const std::lock_guard lock(mutex_);
    if (down_) return;
    calls_.for_each([&](uint64_t, Entry& entry) {
      if (entry.timer != 0) loop_.cancel_timer(entry.timer);
      if (entry.done) finish(std::move(entry.done), make_error(entry.sent ? of_sent : further));
      const auto response = entry.sent ? entry.response->weak_from_this().lock() : nullptr;
      if (response != nullptr) response->is_lost.store(true);
      cancel(response, cancels);
    });
    down_ = std::move(further);
    calls_.clear();
    waiting_.clear();
    waiting_bytes_ = running_ = running_bytes_ = 0;
  }
  cancels.run();
}

}  // namespace volador::net
