// The result of a call that may still be under way.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/actor/actor_class.h"
#include "runtime/actor/lending.h"
#include "runtime/adaptive_mutex.h"
#include "runtime/result.h"
#include "runtime/serialize/codec.h"

namespace volador {

struct CancelOptions {
  bool force = false;  // Of a task that runs: ends its process, for one that does not look at cancel_requested().
};

// Holds the reply of one call as it came. Thread safe.
class Reply {
 public:
  virtual ~Reply() = default;
  // Asks whoever will answer to stop; see Future::cancel.
  virtual void cancel(const CancelOptions&) {}

  // The first one counts; later ones change nothing.
  // `references`: what it refers to, kept as long as it is.
  void set(Result<std::string> reply, std::shared_ptr<const void> references = nullptr) {
    std::vector<std::function<void(const Result<std::string>&)>> waiting;
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      if (reply_) return;
      reply_ = std::move(reply);
      references_ = std::move(references);
      waiting.swap(waiting_);
      there_.store(true, std::memory_order_release);
    }
    ready_.notify_all();
    for (auto& function : waiting) function(*reply_);
  }
  // Runs at once when the reply is there, else on the thread that brings it.
  void then(std::function<void(const Result<std::string>&)> function) {
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      if (!reply_) {
        waiting_.push_back(std::move(function));
        return;
      }
    }
    function(*reply_);
  }
  bool wait_until(const std::optional<std::chrono::steady_clock::time_point>& deadline) {
    const auto is_there = [this] { return there_.load(std::memory_order_acquire); };
    if (deadline == std::chrono::steady_clock::time_point::min()) return is_there();
    if (look_for_a_moment(is_there)) return true;  // Answers come in batches.
    std::unique_lock<std::mutex> hold(mutex_);
    return internal::wait_lending(ready_, hold, deadline, [this] { return reply_.has_value(); });
  }
  const Result<std::string>& get() const { return *reply_; }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::optional<Result<std::string>> reply_;
  std::atomic<bool> there_{false};
  std::shared_ptr<const void> references_;
  std::vector<std::function<void(const Result<std::string>&)>> waiting_;
};

// A value: copies share the reply. Dropping it does not cancel the call.
template <class T>
class Future {
 public:
  using Value = registration::Travelling<T>;

  Future() = default;
  explicit Future(std::shared_ptr<Reply> reply) : reply_(std::move(reply)) {}

  bool is_valid() const { return reply_ != nullptr; }
  // Asks for the call to stop. One that waits is not made; a method that runs sees it by cancel_requested(), and so do the calls that it
  // made. The future ends with kCancelled unless the answer came first. Repeated, or after the answer: no effect. Throws kInvalidArgument
  // for a forced end of a call on an actor: that is what kill() is for.
  void cancel(const CancelOptions& options = {}) const { reply_->cancel(options); }
  bool is_ready() const { return reply_->wait_until(std::chrono::steady_clock::time_point::min()); }
  // Waits; throws volador::Exception with what the call ended with.
  T get() const { return unwrap(result()); }
  // As get(), but throws kTimeout when `timeout` passed first. The call goes on.
  T get(std::chrono::nanoseconds timeout) const { return unwrap(result(timeout)); }
  // Waits; never throws.
  Result<Value> result() const {
    reply_->wait_until(std::nullopt);
    return decode_reply(reply_->get());
  }
  Result<Value> result(std::chrono::nanoseconds timeout) const {
    if (!wait_for(timeout)) return make_error(ErrorCode::kTimeout, "the call has not ended yet; it goes on: wait longer, or give call() a timeout");
    return decode_reply(reply_->get());
  }
  bool wait_for(std::chrono::nanoseconds timeout) const { return reply_->wait_until(std::chrono::steady_clock::now() + timeout); }
  // Calls function(Result<Value>) once: now if the reply is there, else on a thread of the runtime, which it must not block.
  template <class F>
  void then(F function) const {
    reply_->then([function = std::move(function)](const Result<std::string>& reply) mutable { function(decode_reply(reply)); });
  }
  // As then(), for those who only want to know that it is there.
  void when_ready(std::function<void()> function) const {
    reply_->then([function = std::move(function)](const Result<std::string>&) { function(); });
  }

 private:
  static Result<Value> decode_reply(const Result<std::string>& reply) {
    if (!reply) return make_error(reply.error());
    return from_bytes<Value>(*reply);
  }
  static T unwrap(Result<Value> result) {
    if (!result) throw Exception(std::move(result).error());
    if constexpr (!std::is_void_v<T>) return std::move(*result);
  }

  std::shared_ptr<Reply> reply_;
};

}  // namespace volador
