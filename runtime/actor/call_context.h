// Context of the call that runs on this thread: cancellation and deadline.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/clock.h"

namespace volador {

class Reply;
namespace net {
class Responder;
}

// Whether the call on this thread was cancelled: by its caller, by its timeout, by the end of its caller, or because
// its actor was killed in a shared host. Long methods should poll it and return. False outside of a method or task.
bool cancel_requested();
// Throws kCancelled if cancel_requested().
void throw_if_cancelled();
// Returns the remaining timeout of the call, zero once it has passed, nothing if it has none. It also limits the calls
// that the method makes.
std::optional<std::chrono::nanoseconds> time_left();

// Permanently ends the calling actor and runs its destructor, after this call was answered with kActorDied. Not caught
// by catch (const std::exception&). Throws kUnavailable outside an actor.
[[noreturn]] void exit_actor();

namespace internal {

// Thrown by exit_actor(); not a std::exception, so that user code does not catch it.
struct ActorExit {};

class CancelSignal;
class DeferredAnswer;
class StreamSource;
// Lives on the stack of the thread that runs a call.
class CallContext {
 public:
  // `kept`: the caller may fetch the answer later, so that the end of its connection does not cancel the call. `ended`:
  // the actor was ended during the call. `later`: cancellation of a kept call over a later connection. All of them
  // outlive this object.
  CallContext(const std::shared_ptr<net::Responder>& responder, bool kept, std::optional<BootTime> deadline,
              const Clock& clock, StreamSource* stream, const std::atomic<bool>* ended,
              const std::shared_ptr<CancelSignal>& later);
  ~CallContext();
  CallContext(const CallContext&) = delete;
  CallContext& operator=(const CallContext&) = delete;

  // Returns the context of this thread; null outside a call.
  static CallContext* current();

  // Marks a scope in which a thread inside a call runs code that is not part of that call.
  class Outside {
   public:
    Outside();
    ~Outside();
    Outside(const Outside&) = delete;
    Outside& operator=(const Outside&) = delete;

   private:
    CallContext* const inside_;
  };

  bool cancel_requested() const;
  std::optional<std::chrono::nanoseconds> time_left() const;
  // Returns the shorter of `timeout` and time_left(); 0: none.
  std::chrono::nanoseconds shorten(std::chrono::nanoseconds timeout) const;
  // Registers a call made by this one; it is cancelled together with this one.
  void adopt(const std::shared_ptr<Reply>& made);
  // Returns the destination of a Sink's items. Throws kUnavailable if the call does not stream.
  StreamSource& stream() const;
  // Marks the call as answered later, through `answer`.
  void defer(std::shared_ptr<DeferredAnswer> answer) { deferred_ = std::move(answer); }
  // Null if the call was answered by its return value.
  std::shared_ptr<DeferredAnswer> take_deferred() { return std::move(deferred_); }

 private:
  struct Family;

  const std::shared_ptr<net::Responder>& responder_;
  const bool kept_;
  const std::optional<BootTime> deadline_;
  const Clock& clock_;
  StreamSource* const stream_;
  const std::atomic<bool>* const ended_;
  const std::shared_ptr<CancelSignal>& later_;
  std::shared_ptr<Family> family_;
  std::shared_ptr<DeferredAnswer> deferred_;
};

}  // namespace internal
}  // namespace volador
