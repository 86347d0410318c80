#include "runtime/actor/reply_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/quantities.h"

namespace volador {
namespace {

constexpr size_t kSpare = 1024;  // Minimum number of entries for acknowledged replies that are kept.

}  // namespace

ReplyCache::Decision ReplyCache::begin(BootTime now, const net::CallerId& id, uint64_t request, uint64_t acknowledged,
                                       std::shared_ptr<net::Responder> responder,
                                       std::shared_ptr<internal::CancelSignal> signal) {
  expire(now);
  Caller& caller = callers_[id];
  acknowledge(caller, acknowledged);
  if (const auto found = caller.calls.find(request); found != caller.calls.end()) {
    if (found->second.answered) return {Verdict::kAnswered, found->second.answer, nullptr};
    found->second.responder = std::move(responder);
    return {Verdict::kRunsAlready, {}, found->second.signal};
  }
  if (request <= caller.given_up) {
    return {
        Verdict::kAnswered,
        make_error(
            ErrorCode::kTimeout,
            fmt::format(
                "the call may have been executed, but its caller was away for longer than an answer is kept ({} min)",
                std::chrono::duration_cast<std::chrono::minutes>(limits_.keep).count())),
        nullptr};
  }
  if (calls_ >= limits_.calls_max || bytes_ >= limits_.bytes_max) {
    return {Verdict::kAnswered,
            make_error(ErrorCode::kUnavailable, fmt::format("the actor keeps {} ({}) that their callers "
                                                            "have not acknowledged; the limit is {} or {}",
                                                            counted(calls_, "answer"), counted(bytes_, "byte"),
                                                            limits_.calls_max, counted(limits_.bytes_max, "byte"))),
            nullptr};
  }
  ++calls_;
  caller.calls.emplace(
      request, Entry{.responder = std::move(responder), .answer = {}, .answered = false, .signal = std::move(signal)});
  return {Verdict::kRun, {}, nullptr};
}

std::shared_ptr<net::Responder> ReplyCache::finish(BootTime now, const net::CallerId& id, uint64_t request,
                                                   const Result<std::string>& answer) {
  const auto caller = callers_.find(id);
  if (caller == callers_.end()) return nullptr;
  const auto found = caller->second.calls.find(request);
  if (found == caller->second.calls.end() || found->second.answered) return nullptr;
  found->second.answered = true;
  found->second.signal.reset();
  found->second.answer = answer;
  bytes_ += bytes_of(answer);
  if (kept_.size() > 2 * calls_ + kSpare) compact();
  kept_.push_back({now + limits_.keep, id, request});
  return std::exchange(found->second.responder, nullptr);
}

bool ReplyCache::is_awaited(const net::CallerId& id, uint64_t request) const {
  const auto caller = callers_.find(id);
  if (caller == callers_.end()) return false;
  const auto found = caller->second.calls.find(request);
  return found != caller->second.calls.end() && found->second.responder && !found->second.responder->cancelled();
}

void ReplyCache::drop(const net::CallerId& id, uint64_t request) {
  const auto caller = callers_.find(id);
  if (caller == callers_.end()) return;
  if (const auto found = caller->second.calls.find(request); found != caller->second.calls.end())
    erase(caller->second, found);
}

// A running call cannot have been acknowledged: it is kept, even if a caller claims so.
void ReplyCache::acknowledge(Caller& caller, uint64_t below) {
  for (auto at = caller.calls.begin(); at != caller.calls.end() && at->first < below;) {
    const auto next = std::next(at);
    if (at->second.answered) erase(caller, at);
    at = next;
  }
}

void ReplyCache::expire(BootTime now) {
  while (!kept_.empty() && kept_.front().until <= now) {
    const Kept kept = std::move(kept_.front());
    kept_.pop_front();
    const auto caller = callers_.find(kept.caller);
    if (caller == callers_.end()) continue;
    const auto found = caller->second.calls.find(kept.request);
    if (found == caller->second.calls.end()) continue;  // Acknowledged.
    erase(caller->second, found);
    caller->second.given_up = std::max(caller->second.given_up, kept.request);
  }
}

// Removes acknowledged entries, and callers without entries.
void ReplyCache::compact() {
  std::erase_if(kept_, [this](const Kept& kept) {
    const auto caller = callers_.find(kept.caller);
    return caller == callers_.end() || !caller->second.calls.contains(kept.request);
  });
  std::erase_if(callers_, [](const auto& entry) { return entry.second.calls.empty() && entry.second.given_up == 0; });
}

void ReplyCache::erase(Caller& caller, std::map<uint64_t, Entry>::iterator entry) {
  if (entry->second.answered) bytes_ -= bytes_of(entry->second.answer);
  --calls_;
  caller.calls.erase(entry);
}

}  // namespace volador
