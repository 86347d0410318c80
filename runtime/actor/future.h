// The result of a call that may still be under way.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/actor/actor_class.h"
#include "runtime/actor/lending.h"
#include "runtime/adaptive_mutex.h"
#include "runtime/net/held_writes.h"
#include "runtime/once_event.h"
#include "runtime/result.h"
#include "runtime/serialize/codec.h"

namespace volador {

struct CancelOptions {
  bool force = false;  // Of a task that runs: ends its process, for one that does not look at cancel_requested().
};

// Holds the reply of one call as it came. Thread safe.
class Reply {
 public:
  Reply() = default;
  virtual ~Reply() {
    for (Then* one = waiting_.load(); one != nullptr && one != &closed_;) delete std::exchange(one, one->next);
  }
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;
  // Asks whoever will answer to stop; see Future::cancel.
  virtual void cancel(const CancelOptions&) {}
  // For the message of who waited in vain: what is under way, and what can be done.
  virtual const char* not_there_yet() const { return "this has not ended yet; it goes on: wait longer"; }

  // The first one counts; later ones change nothing.
  // `references`: what it refers to, kept as long as it is.
  void set(Result<std::string>&& reply, std::shared_ptr<const void> references = nullptr) {
    if (claimed_.exchange(true)) return;
    reply_ = std::move(reply);
    references_ = std::move(references);
    there_.happen();
    Then* newest = waiting_.exchange(&closed_, std::memory_order_acq_rel);
    if (newest != nullptr) WakesTogether::wake_now();
    Then* oldest = nullptr;
    while (newest != nullptr) oldest = std::exchange(newest, std::exchange(newest->next, oldest));
    while (oldest != nullptr) {
      const std::unique_ptr<Then> one(std::exchange(oldest, oldest->next));
      one->function(reply_);
    }
  }
  // Runs at once when the reply is there, else on the thread that brings it.
  void then(std::function<void(const Result<std::string>&)> function) {
    Then* newest = waiting_.load(std::memory_order_acquire);
    if (newest != &closed_) {
      auto one = std::make_unique<Then>(Then{std::move(function), newest});
      while (one->next != &closed_) {
        if (!waiting_.compare_exchange_weak(one->next, one.get(), std::memory_order_acq_rel, std::memory_order_acquire)) continue;
        static_cast<void>(one.release());
        return;
      }
      function = std::move(one->function);
    }
    function(reply_);
  }
  // Until it is there; false: the deadline came first. Without waiting where the deadline is the earliest time.
  bool wait_until(const std::optional<std::chrono::steady_clock::time_point>& deadline) { return there_.has_happened() || wait(deadline); }
  const Result<std::string>& get() const { return reply_; }

 private:
  // Who wants to be told; newest first.
  struct Then {
    std::function<void(const Result<std::string>&)> function;
    Then* next = nullptr;
  };
  bool wait(const std::optional<std::chrono::steady_clock::time_point>& deadline);

  static Then closed_;  // At the head of the list: the reply is there, and its functions ran or run.

  std::atomic<bool> claimed_{false};
  OnceEvent there_;  // After reply_ and references_.
  Result<std::string> reply_;
  std::shared_ptr<const void> references_;
  std::atomic<Then*> waiting_{nullptr};
};

inline Reply::Then Reply::closed_{};

// A value: copies share the reply. Dropping it does not cancel the call.
template <class T>
class Future {
 public:
  using Value = registration::Travelling<T>;

  Future() = default;
  explicit Future(std::shared_ptr<Reply> reply) : reply_(std::move(reply)) {}

  // False: default constructed, it stands for no call.
  bool is_valid() const { return reply_ != nullptr; }
  // Asks for the call to stop. One that waits is not made; a method that runs sees it by cancel_requested(), and so do the calls that it
  // made. The future ends with kCancelled unless the answer came first. Repeated, or after the answer: no effect. Throws kInvalidArgument
  // for a forced end of a call on an actor: that is what kill() is for.
  void cancel(const CancelOptions& options = {}) const { reply_->cancel(options); }
  // Whether the call has ended. Does not wait.
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
  // As result(), but kTimeout when `timeout` passed first. The call goes on.
  Result<Value> result(std::chrono::nanoseconds timeout) const {
    if (!wait_for(timeout)) return make_error(ErrorCode::kTimeout, reply_->not_there_yet());
    return decode_reply(reply_->get());
  }
  // Whether the call has ended within `timeout`.
  bool wait_for(std::chrono::nanoseconds timeout) const { return reply_->wait_until(std::chrono::steady_clock::now() + timeout); }
  // Calls function(Result<Value>) once: now if the reply is there, else on a thread of the runtime or on one that waits for a call's answer
  // (get(), result(), wait_for()). It must not block, nor take a lock that a thread holds while it waits.
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
