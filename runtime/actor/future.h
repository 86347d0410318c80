// Result of an asynchronous call.
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

// Options of Future::cancel().
struct CancelOptions {
  bool force = false;  // For a running task that ignores cancel_requested(): ends its process.
};

// Holds the serialized reply of one call. Thread safe.
class Reply {
 public:
  Reply() = default;
  virtual ~Reply() {
    for (Then* one = waiting_.load(); one != nullptr && one != &closed_;) delete std::exchange(one, one->next);
  }
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;
  // Requests cancellation; see Future::cancel.
  virtual void cancel(const CancelOptions&) {}
  // Text for a timed-out wait: what is running and what the caller can do.
  virtual const char* not_there_yet() const { return "this has not ended yet; it goes on: wait longer"; }

  // The first reply counts; later ones are ignored. `references`: references in the reply, kept as long as the reply.
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
  // Runs at once if the reply has arrived, otherwise on the thread that delivers it.
  void then(std::function<void(const Result<std::string>&)> function) {
    Then* newest = waiting_.load(std::memory_order_acquire);
    if (newest != &closed_) {
      auto one = std::make_unique<Then>(Then{std::move(function), newest});
      while (one->next != &closed_) {
        if (!waiting_.compare_exchange_weak(one->next, one.get(), std::memory_order_acq_rel, std::memory_order_acquire))
          continue;
        static_cast<void>(one.release());
        return;
      }
      function = std::move(one->function);
    }
    function(reply_);
  }
  // Waits for the reply; false: the deadline passed. Does not wait if the deadline is time_point::min().
  bool wait_until(const std::optional<std::chrono::steady_clock::time_point>& deadline) {
    return there_.has_happened() || wait(deadline);
  }
  const Result<std::string>& get() const { return reply_; }

 private:
  // Registered callbacks, newest first.
  struct Then {
    std::function<void(const Result<std::string>&)> function;
    Then* next = nullptr;
  };
  bool wait(const std::optional<std::chrono::steady_clock::time_point>& deadline);

  static Then closed_;  // List head that marks the reply as delivered: its callbacks ran or are running.

  std::atomic<bool> claimed_{false};
  OnceEvent there_;  // Set after reply_ and references_.
  Result<std::string> reply_;
  std::shared_ptr<const void> references_;
  std::atomic<Then*> waiting_{nullptr};
};

inline Reply::Then Reply::closed_{};

// Value type: copies share the reply. Destroying a future does not cancel the call.
template <class T>
class Future {
 public:
  using Value = registration::Travelling<T>;

  Future() = default;
  explicit Future(std::shared_ptr<Reply> reply) : reply_(std::move(reply)) {}

  // False if default constructed.
  bool is_valid() const { return reply_ != nullptr; }
  // Requests cancellation of the call. A queued call is not made; a running method sees it in cancel_requested(), as do
  // the calls it made. The future ends with kCancelled unless the reply came first. Repeated, or after the reply: no
  // effect. Throws kInvalidArgument for `force` on an actor's call: use kill().
  void cancel(const CancelOptions& options = {}) const { reply_->cancel(options); }
  // Whether the call has ended. Does not wait.
  bool is_ready() const { return reply_->wait_until(std::chrono::steady_clock::time_point::min()); }
  // Waits; throws volador::Exception if the call failed.
  T get() const { return unwrap(result()); }
  // As get(), but throws kTimeout if `timeout` passes first. The call continues.
  T get(std::chrono::nanoseconds timeout) const { return unwrap(result(timeout)); }
  // Waits; never throws.
  Result<Value> result() const {
    reply_->wait_until(std::nullopt);
    return decode_reply(reply_->get());
  }
  // As result(), but returns kTimeout if `timeout` passes first. The call continues.
  Result<Value> result(std::chrono::nanoseconds timeout) const {
    if (!wait_for(timeout)) return make_error(ErrorCode::kTimeout, reply_->not_there_yet());
    return decode_reply(reply_->get());
  }
  // Waits up to `timeout`; returns whether the call has ended.
  bool wait_for(std::chrono::nanoseconds timeout) const {
    return reply_->wait_until(std::chrono::steady_clock::now() + timeout);
  }
  // Calls function(Result<Value>) once: at once if the reply has arrived, otherwise on a runtime thread or a thread
  // that waits for a reply (get(), result(), wait_for()). It must neither block nor take a lock that a waiting thread
  // holds.
  template <class F>
  void then(F function) const {
    reply_->then(
        [function = std::move(function)](const Result<std::string>& reply) mutable { function(decode_reply(reply)); });
  }
  // As then(), without the result.
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
