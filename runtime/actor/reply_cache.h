// Replies that a host keeps for callers that may retry (max_task_retries): a repeated call runs only once. Pure: no
// clock, thread or I/O. Belongs to one incarnation of an actor.
//
//            begin            finish             acknowledged, or kept too long
//   (none) ─────────► running ───────► answered ──────────────────────────────► (none)
//
// A caller's request ids increase. For replies discarded before the caller acknowledged them (Limits::keep), the
// highest request id is stored: a repeated call up to that id gets an error and does not run twice.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "runtime/actor/cancel_signal.h"
#include "runtime/clock.h"
#include "runtime/net/channel.h"
#include "runtime/result.h"

namespace volador {

// Table of running and answered calls by caller and request id. Not thread safe.
class ReplyCache {
 public:
  struct Limits {
    size_t calls_max = 100'000;                                // Running and answered calls of all callers.
    size_t bytes_max = size_t{64} << 20;                       // All replies; a single larger reply is kept alone.
    std::chrono::nanoseconds keep = std::chrono::minutes(10);  // Maximum age of an unacknowledged reply.
  };
  enum class Verdict : uint8_t {
    kRun,          // New call.
    kRunsAlready,  // Running; its reply goes to the new responder.
    kAnswered,     // `answer` is the first reply, or the reason why it cannot run.
  };
  struct Decision {
    Verdict verdict = Verdict::kRun;
    Result<std::string> answer;
    std::shared_ptr<internal::CancelSignal> signal;  // For kRunsAlready: the signal of the first attempt.
  };

  explicit ReplyCache(Limits limits) : limits_(limits) {}

  // Begins a call of `caller`, which has the replies of all its calls below `acknowledged`. Full: kUnavailable; the
  // call may be retried.
  Decision begin(BootTime now, const net::CallerId& caller, uint64_t request, uint64_t acknowledged,
                 std::shared_ptr<net::Responder> responder, std::shared_ptr<internal::CancelSignal> signal = nullptr);
  // Stores the reply of a completed call and returns the responder that waits for it.
  std::shared_ptr<net::Responder> finish(BootTime now, const net::CallerId& caller, uint64_t request,
                                         const Result<std::string>& answer);
  // Whether a running call's reply is still wanted: the first connection may be gone and the caller may have retried.
  bool is_awaited(const net::CallerId& caller, uint64_t request) const;
  // Forgets a call that did not run: a retry counts as new.
  void drop(const net::CallerId& caller, uint64_t request);

  size_t calls() const { return calls_; }
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::shared_ptr<net::Responder> responder;  // Set while it runs.
    Result<std::string> answer;
    bool answered = false;
    std::shared_ptr<internal::CancelSignal> signal;  // Set while it runs.
  };
  struct Caller {
    std::map<uint64_t, Entry> calls;
    uint64_t given_up = 0;  // Highest request id whose reply was discarded.
  };
  struct Kept {
    BootTime until;
    net::CallerId caller;
    uint64_t request;
  };

  void acknowledge(Caller& caller, uint64_t below);
  void expire(BootTime now);
  void compact();
  void erase(Caller& caller, std::map<uint64_t, Entry>::iterator entry);
  static size_t bytes_of(const Result<std::string>& answer) {
    return answer ? answer->size() : answer.error().message.size();
  }

  const Limits limits_;
  std::unordered_map<net::CallerId, Caller> callers_;
  std::deque<Kept> kept_;  // Oldest reply first.
  size_t calls_ = 0;
  size_t bytes_ = 0;
};

}  // namespace volador
