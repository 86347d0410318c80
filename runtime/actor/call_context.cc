#include "runtime/actor/call_context.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "runtime/actor/cancel_signal.h"
#include "runtime/actor/future.h"
#include "runtime/actor/self.h"
#include "runtime/adaptive_mutex.h"
#include "runtime/net/channel.h"

namespace volador {
namespace internal {
namespace {

constexpr size_t kFewCalls = 16;

thread_local CallContext* current_context = nullptr;

}  // namespace

// The calls made by a call. Completed ones are removed when new ones are added.
struct CallContext::Family {
  AdaptiveMutex mutex;
  bool cancelled = false;
  std::vector<std::weak_ptr<Reply>> calls;
  size_t calls_enough = kFewCalls;

  void add(const std::shared_ptr<Reply>& made) {
    {
      const std::lock_guard hold(mutex);
      if (!cancelled) {
        if (calls.size() >= calls_enough) {
          std::erase_if(calls, [](const std::weak_ptr<Reply>& call) { return call.expired(); });
          calls_enough = std::max(kFewCalls, 2 * calls.size());
        }
        calls.push_back(made);
        return;
      }
    }
    made->cancel({});
  }
  void cancel() {
    std::vector<std::weak_ptr<Reply>> all;
    {
      const std::lock_guard hold(mutex);
      cancelled = true;
      all.swap(calls);
    }
    for (const auto& call : all) {
      if (const auto made = call.lock()) made->cancel({});
    }
  }
};

CallContext::CallContext(const std::shared_ptr<net::Responder>& responder, bool kept, std::optional<BootTime> deadline,
                         const Clock& clock, StreamSource* stream, const std::atomic<bool>* ended,
                         const std::shared_ptr<CancelSignal>& later)
    : responder_(responder),
      kept_(kept),
      deadline_(deadline),
      clock_(clock),
      stream_(stream),
      ended_(ended),
      later_(later) {
  current_context = this;
}

CallContext::~CallContext() { current_context = nullptr; }

CallContext* CallContext::current() { return current_context; }

CallContext::Outside::Outside() : inside_(std::exchange(current_context, nullptr)) {}
CallContext::Outside::~Outside() { current_context = inside_; }

bool CallContext::cancel_requested() const {
  if (ended_ != nullptr && ended_->load()) return true;
  if (later_ != nullptr && later_->cancelled()) return true;
  return responder_->cancelled() && !(kept_ && responder_->lost());
}

std::optional<std::chrono::nanoseconds> CallContext::time_left() const {
  if (!deadline_) return std::nullopt;
  return std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(*deadline_ - clock_.now()));
}

std::chrono::nanoseconds CallContext::shorten(std::chrono::nanoseconds timeout) const {
  const auto left = time_left();
  if (!left) return timeout;
  const auto at_least = std::max(*left, std::chrono::nanoseconds(1));  // 0 would mean no timeout.
  return timeout.count() > 0 ? std::min(timeout, at_least) : at_least;
}

StreamSource& CallContext::stream() const {
  if (stream_ == nullptr)
    throw Exception(Error{ErrorCode::kUnavailable,
                          "a method with a volador::Sink runs as a stream only: handle.stream<&T::method>(…)"});
  return *stream_;
}

void CallContext::adopt(const std::shared_ptr<Reply>& made) {
  if (!family_) {
    family_ = std::make_shared<Family>();
    responder_->on_cancel([family = family_, kept = kept_, weak = std::weak_ptr<net::Responder>(responder_)] {
      const auto responder = weak.lock();
      if (kept && responder && responder->lost()) return;
      family->cancel();
    });
    if (later_) later_->on_cancel([family = family_] { family->cancel(); });
  }
  family_->add(made);
}

}  // namespace internal

bool cancel_requested() {
  const auto* context = internal::CallContext::current();
  return context != nullptr && context->cancel_requested();
}

void throw_if_cancelled() {
  if (cancel_requested())
    throw Exception(Error{ErrorCode::kCancelled, "the call was cancelled by its caller, or its caller has ended"});
}

std::optional<std::chrono::nanoseconds> time_left() {
  const auto* context = internal::CallContext::current();
  return context == nullptr ? std::nullopt : context->time_left();
}

void exit_actor() {
  if (!is_inside_actor())
    throw Exception(Error{ErrorCode::kUnavailable,
                          "volador::exit_actor() has a meaning inside an actor only; this process is a driver"});
  throw internal::ActorExit{};
}

}  // namespace volador
