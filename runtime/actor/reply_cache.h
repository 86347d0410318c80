// The answers that a host keeps for callers who may ask again (max_task_retries): a call that comes twice runs once.
// Pure: no clock, thread or I/O. Of one incarnation of an actor.
//
//            begin            finish             acknowledged, or kept too long
//   (none) ─────────► running ───────► answered ──────────────────────────────► (none)
//
// A caller's request ids only grow. What was given up before the caller acknowledged it (Limits::keep) is remembered by
// its highest request id: a call at or below it, if it comes again, gets an error and does not run twice.
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

class ReplyCache {
 public:
  struct Limits {
    size_t calls_max = 100'000;                                // Running and answered ones, of all callers.
    size_t bytes_max = size_t{64} << 20;                       // Of the answers; one larger answer is kept alone.
    std::chrono::nanoseconds keep = std::chrono::minutes(10);  // Without a word of its caller.
  };
  enum class Verdict : uint8_t {
    kRun,          // It is new.
    kRunsAlready,  // Its answer goes to the responder of this time.
    kAnswered,     // `answer` is that of the first time, or why it cannot run.
  };
  struct Decision {
    Verdict verdict = Verdict::kRun;
    Result<std::string> answer;
    std::shared_ptr<internal::CancelSignal> signal;  // Of one that runs already: as the first time gave it.
  };

  explicit ReplyCache(Limits limits) : limits_(limits) {}

  // A call of `caller`, which has the answers of all its calls below `acknowledged`. Full: kUnavailable, the call may
  // come again.
  Decision begin(BootTime now, const net::CallerId& caller, uint64_t request, uint64_t acknowledged,
                 std::shared_ptr<net::Responder> responder, std::shared_ptr<internal::CancelSignal> signal = nullptr);
  // It ran: keeps the answer and gives the responder that waits for it.
  std::shared_ptr<net::Responder> finish(BootTime now, const net::CallerId& caller, uint64_t request,
                                         const Result<std::string>& answer);
  // Whether somebody still wants the answer of a call that runs: who asked first may be gone, and have asked again.
  bool is_awaited(const net::CallerId& caller, uint64_t request) const;
  // It did not run and will not: if it comes again, it is new.
  void drop(const net::CallerId& caller, uint64_t request);

  size_t calls() const { return calls_; }
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::shared_ptr<net::Responder> responder;  // While it runs.
    Result<std::string> answer;
    bool answered = false;
    std::shared_ptr<internal::CancelSignal> signal;  // While it runs.
  };
  struct Caller {
    std::map<uint64_t, Entry> calls;
    uint64_t given_up = 0;  // Highest request id of which the answer was given up.
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
  std::deque<Kept> kept_;  // The oldest answer first.
  size_t calls_ = 0;
  size_t bytes_ = 0;
};

}  // namespace volador
