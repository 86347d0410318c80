#include "runtime/net/callee_core.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/net/call_errors.h"
#include "runtime/quantities.h"

namespace volador::net {
CalleeCore::CalleeCore(CalleeLimits limits)
    : limits_(limits),
      calls_at_once_(std::min(limits.calls_first, limits.calls_max)),
      window_{.calls = static_cast<uint32_t>(calls_at_once_), .bytes = limits.bytes_max},
      window_most_{.calls = static_cast<uint32_t>(limits.calls_max), .bytes = limits.bytes_max},
      reply_estimate_(limits.replies_bytes_aim / std::max<size_t>(1, limits.calls_first)) {
  put_hello(outbox_.tail(), {.window = window_, .caller = {}});
  outbox_.added();
}

Result<CalleeCore::Event> CalleeCore::on_frame(const Frame& frame) {
  Event event;
  switch (frame.kind) {
    case FrameKind::kHello:
      hello_ = frame.hello;
      return event;
    case FrameKind::kCall: {
      const bool alone = running_.empty();
      if (running_.size() >= window_most_.calls || (!alone && running_bytes_ + frame.wire_bytes > window_most_.bytes)) {
        return refuse_frame(fmt::format("the caller sent more than this side takes ({}, {})",
                                        counted(window_most_.calls, "call"), counted(window_most_.bytes, "byte")));
      }
      Running* const running = running_.insert(frame.request_id);
      if (running == nullptr)
        return refuse_frame(fmt::format("request id {} came twice before its answer", frame.request_id));
      running->bytes = frame.wire_bytes;
      running_bytes_ += frame.wire_bytes;
      event.call = &running->noted;
      return event;
    }
    case FrameKind::kCancel:
      if (const Running* running = running_.find(frame.request_id)) event.cancel = running->noted;
      return event;
    case FrameKind::kGiveBack:
      event.give_back = true;
      return event;
    case FrameKind::kPing:
      put_plain(outbox_.tail(), FrameKind::kPong, frame.request_id);
      outbox_.added();
      return event;
    case FrameKind::kPong:
      return event;
    case FrameKind::kGoodbye:
      return make_error(ErrorCode::kUnavailable, "the caller closed: " + frame.body);
    case FrameKind::kReply:
    case FrameKind::kError:
    case FrameKind::kCredit:
      break;
  }
  return refuse_frame("the caller sent a frame that only hosts send");
}

void CalleeCore::on_reply(uint64_t request_id, Result<std::string>&& result) {
  Running* const running = running_.find(request_id);
  if (running == nullptr) return;
  running_bytes_ -= running->bytes;
  if (running->later) {
    --later_calls_;
    later_bytes_ -= running->bytes;
  }
  running_.erase(running);
  const size_t bytes = kFrameHeaderBytes + (result ? result->size() : result.error().message.size());
  put_answer(request_id, std::move(result));
  adapt_window(bytes);
}

void CalleeCore::put_answer(uint64_t request_id, Result<std::string>&& result) {
  const size_t bytes = kFrameHeaderBytes + (result ? result->size() : 0);
  if (bytes > kFrameBytesMax) {
    result = make_error(result_too_large(result->size()));
  } else if (result && !outbox_.empty() && outbox_.bytes() + bytes > limits_.replies_bytes_max) {
    result = make_error(ErrorCode::kUnknownOutcome,
                        fmt::format("the call was executed, but {} for the caller, which does not "
                                    "read them (limit {}): its result was dropped",
                                    counted(outbox_.bytes(), "byte of replies waits", "bytes of replies wait"),
                                    limits_.replies_bytes_max));
  }
  if (result) {
    put_reply_header(outbox_.tail(), request_id, result->size());
    outbox_.add_body(std::move(*result));
  } else {
    put_error(outbox_.tail(), request_id, result.error());
    outbox_.added();
  }
}

// Sizes the window so that the replies, if all are as large as recent ones, stay within replies_bytes_aim.
void CalleeCore::adapt_window(size_t reply_bytes) {
  reply_estimate_ = std::max({reply_bytes, reply_estimate_ - reply_estimate_ / 8, size_t{1}});
  const size_t fitting = std::clamp(limits_.replies_bytes_aim / reply_estimate_,
                                    std::min(limits_.calls_least, limits_.calls_max), limits_.calls_max);
  const bool worth_a_frame = fitting >= 2 * calls_at_once_ || 2 * (fitting + later_calls_) <= window_.calls ||
                             (fitting == limits_.calls_max && fitting != calls_at_once_);
  if (worth_a_frame) announce(fitting);
}

void CalleeCore::announce(size_t calls) {
  calls_at_once_ = calls;
  window_ = {.calls = static_cast<uint32_t>(calls + later_calls_), .bytes = limits_.bytes_max + later_bytes_};
  window_most_ = {.calls = std::max(window_most_.calls, window_.calls),
                  .bytes = std::max(window_most_.bytes, window_.bytes)};
  put_credit(outbox_.tail(), window_);
  outbox_.added();
}

void CalleeCore::on_answer_later(uint64_t request_id) {
  Running* const running = running_.find(request_id);
  if (running == nullptr || running->later || later_calls_ >= limits_.later_max) return;
  running->later = true;
  ++later_calls_;
  later_bytes_ += running->bytes;
  // Announce before the caller has used up half of its window.
  const bool few_calls = window_.calls <= running_.size() + calls_at_once_ / 2;
  const bool few_bytes = window_.bytes <= running_bytes_ + limits_.bytes_max / 2;
  if (few_calls || few_bytes) announce(calls_at_once_);
}

void CalleeCore::say_goodbye(std::string_view why) {
  put_goodbye(outbox_.tail(), why);
  outbox_.added();
}

}  // namespace volador::net
