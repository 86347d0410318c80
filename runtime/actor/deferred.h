// Replies sent after the method has returned, so that the actor's thread is free.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "runtime/actor/ref.h"
#include "runtime/result.h"

namespace volador {
namespace net {
class Responder;
}

namespace internal {

// Passes the reply of one call from the method to the call's responder. Thread safe.
class DeferredAnswer {
 public:
  DeferredAnswer() = default;
  // Replies kApplication if there was no reply.
  ~DeferredAnswer();
  DeferredAnswer(const DeferredAnswer&) = delete;
  DeferredAnswer& operator=(const DeferredAnswer&) = delete;

  // The first reply counts; later ones are ignored.
  void set(Result<std::string>&& answer);
  // Called when the method has returned: the reply goes to `responder`, after running `before`, on the thread of set().
  void send_to(std::shared_ptr<net::Responder> responder, std::function<void()> before);
  // Whether the caller cancelled the call or is gone. False until the method has returned.
  bool cancelled() const;

 private:
  mutable std::mutex mutex_;
  bool answered_ = false;
  std::optional<Result<std::string>> early_;  // Set before the method returned.
  std::shared_ptr<net::Responder> responder_;
  std::function<void()> before_;
};

}  // namespace internal

namespace registration {

// Wire type of a result; void has an empty one.
template <class R>
using Travelling = std::conditional_t<std::is_void_v<R>, std::monostate, R>;

}  // namespace registration

// Return type of a method that replies later, from another method or thread. The caller gets a Future<T>. Value type:
// copies share the reply; if the last copy is destroyed without set() or fail(), the call ends with kApplication. Not
// serializable.
//
//   volador::Deferred<int> Pool::take() { volador::Deferred<int> later; waiting_.push_back(later); return later; }
//   void Pool::give(int item) { waiting_.front().set(item); waiting_.pop_front(); }
template <class T>
class Deferred {
 public:
  using Value = registration::Travelling<T>;

  Deferred() : answer_(std::make_shared<internal::DeferredAnswer>()) {}

  // Replies. Repeated, or after fail(): no effect.
  void set(const Value& value) const { answer_->set(registration::encode_answer<Value>(value)); }
  void set() const requires std::is_void_v<T> { set(std::monostate{}); }
  // Ends the call with an error. Repeated, or after set(): no effect.
  void fail(Error error) const { answer_->set(make_error(std::move(error))); }
  // Whether the reply is no longer needed: the call was cancelled, timed out or ended.
  bool is_cancelled() const { return answer_->cancelled(); }

  const std::shared_ptr<internal::DeferredAnswer>& answer() const { return answer_; }  // For the runtime.

 private:
  std::shared_ptr<internal::DeferredAnswer> answer_;
};

namespace registration {

// The caller's result type of a method that returns R.
template <class R>
struct Answered {
  static constexpr bool deferred = false;
  using Type = R;
};
template <class T>
struct Answered<Deferred<T>> {
  static constexpr bool deferred = true;
  using Type = T;
};

}  // namespace registration
}  // namespace volador
