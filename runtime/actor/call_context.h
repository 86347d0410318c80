// What a method knows of the call that it serves: whether it is still wanted, and how long it may take.
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

// Whether the call that runs on this thread is no longer wanted: its caller cancelled it, its time is over, its caller
// has ended, or its actor was killed in a shared host. Long methods ask now and then, and return. False outside of a method or task.
bool cancel_requested();
// Throws kCancelled where cancel_requested().
void throw_if_cancelled();
// What is left of the call's timeout, zero when it has passed; none: the call has none. Calls that the method makes end
// with it too.
std::optional<std::chrono::nanoseconds> time_left();

// Ends the actor that calls it, for good and after its destructor, once this call is answered (with kActorDied). Not
// caught by catch (const std::exception&). Throws kUnavailable outside an actor.
[[noreturn]] void exit_actor();

namespace internal {

// Thrown by exit_actor(); not a std::exception, so that user code lets it pass.
struct ActorExit {};

// Stands on the stack of the thread that runs a call.
class CancelSignal;
class DeferredAnswer;
class StreamSource;
class CallContext {
 public:
  // `kept`: the caller may come again for the answer, so that the end of its connection cancels nothing.
  // `ended`: the actor was ended while this call runs. `later`: of a kept call, its caller's word over later connections.
  // All of it outlives this.
  CallContext(const std::shared_ptr<net::Responder>& responder, bool kept, std::optional<BootTime> deadline, const Clock& clock,
              StreamSource* stream, const std::atomic<bool>* ended, const std::shared_ptr<CancelSignal>& later);
  ~CallContext();
  CallContext(const CallContext&) = delete;
  CallContext& operator=(const CallContext&) = delete;

  // Of this thread; null outside of a call.
  static CallContext* current();

  // While one lives its thread, which may be in a call, runs what is not part of that call.
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
  // The shorter of the two; 0: none.
  std::chrono::nanoseconds shorten(std::chrono::nanoseconds timeout) const;
  // A call that this one made: cancelled with it.
  void adopt(const std::shared_ptr<Reply>& made);
  // Where the items of a method with a Sink go. Throws kUnavailable in a call that is none of a stream.
  StreamSource& stream() const;
  // The method answers later, by this.
  void defer(std::shared_ptr<DeferredAnswer> answer) { deferred_ = std::move(answer); }
  // Null: it has answered by returning.
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
