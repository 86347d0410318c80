// Answers that a method gives after it has returned: the actor's thread is free meanwhile.
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

// The answer of one call, from the method that gives it to the responder of the call. Thread safe.
class DeferredAnswer {
 public:
  DeferredAnswer() = default;
  // Answers with kApplication a call that has got no other answer.
  ~DeferredAnswer();
  DeferredAnswer(const DeferredAnswer&) = delete;
  DeferredAnswer& operator=(const DeferredAnswer&) = delete;

  // The first one counts; later ones change nothing.
  void set(Result<std::string>&& answer);
  // The method has returned: answers go to `responder`, each after `before`, on the thread of set().
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

// void travels as nothing.
template <class R>
using Travelling = std::conditional_t<std::is_void_v<R>, std::monostate, R>;

}  // namespace registration

// What a method returns that answers its caller later, from another method or thread: the caller's future is a Future<T>. A value: copies
// stand for the same answer, and the last one that goes without set() or fail() ends the call with kApplication. Does not travel.
//
//   volador::Deferred<int> Pool::take() { volador::Deferred<int> later; waiting_.push_back(later); return later; }
//   void Pool::give(int item) { waiting_.front().set(item); waiting_.pop_front(); }
template <class T>
class Deferred {
 public:
  using Value = registration::Travelling<T>;

  Deferred() : answer_(std::make_shared<internal::DeferredAnswer>()) {}

  // Answers the call. Repeated, or after fail(): no effect.
  void set(const Value& value) const { answer_->set(registration::encode_answer<Value>(value)); }
  void set() const
    requires std::is_void_v<T>
  {
    set(std::monostate{});
  }
  // Ends the call with this error. Repeated, or after set(): no effect.
  void fail(Error error) const { answer_->set(make_error(std::move(error))); }
  // Whether nobody waits for the answer any more: the caller cancelled the call, its timeout passed, or it has ended.
  bool is_cancelled() const { return answer_->cancelled(); }

  const std::shared_ptr<internal::DeferredAnswer>& answer() const { return answer_; }  // For the runtime.

 private:
  std::shared_ptr<internal::DeferredAnswer> answer_;
};

namespace registration {

// What the caller gets of a method that returns R.
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
