#include "runtime/net/caller_core.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/net/call_errors.h"

namespace volador::net {
namespace {

constexpr size_t kDeadlinesSpare = 1024;  // Minimum number of deadlines of finished calls kept before a cleanup.

bool later(BootTime a, BootTime b) { return a > b; }

}  // namespace

CallerCore::CallerCore(CallerLimits limits, CallerId caller, std::string peer)
    : limits_(limits), peer_(std::move(peer)) {
  // A caller accepts no calls; its window is nominal.
  put_hello(outbox_.tail(), {.window = {.calls = 1, .bytes = 1}, .caller = caller});
  outbox_.added();
}

bool CallerCore::has_room(size_t bytes) const {
  if (!window_) return false;
  // A call larger than the window is sent alone.
  return sent_calls_ == 0 || (sent_calls_ < window_->calls && sent_bytes_ + bytes <= window_->bytes);
}

void CallerCore::on_call(BootTime now, CallRequest&& request, CallDone&& done, std::shared_ptr<ReplyRoom> room) {
  if (lost_) return finish(std::move(done), make_error(*lost_));
  const size_t bytes = call_bytes(request);
  const uint64_t id = request.request_id;
  if (bytes > kFrameBytesMax) {
    return finish(std::move(done), make_error(arguments_too_large(request)));
  }
  Entry* const made = calls_.insert(id);
  if (made == nullptr) return finish(std::move(done), make_error(request_id_taken(request)));
  const bool goes_now = waiting_.empty() && has_room(bytes);
  if (!goes_now && !waiting_.empty() &&
      (waiting_.size() >= limits_.waiting_calls_max || waiting_bytes_ + bytes > limits_.waiting_bytes_max)) {
    calls_.erase(made);
    return finish(std::move(done), make_error(too_many_wait(request, peer_, waiting_.size(), waiting_bytes_,
                                                            limits_.waiting_calls_max, limits_.waiting_bytes_max)));
  }
  if (room) rooms_.emplace(id, std::move(room));
  Entry& entry = *made;
  entry.done = std::move(done);
  entry.bytes = static_cast<uint32_t>(bytes);  // At most kFrameBytesMax.
  if (request.timeout.count() > 0) {
    const auto latest = BootTime::max();
    entry.deadline = request.timeout < latest - now ? now + request.timeout : latest;
    add_deadline(entry.deadline, id);
  }
  if (goes_now) return send(now, std::move(request), entry);
  waiting_bytes_ += bytes;
  entry.place = next_waiting_++;
  waiting_.emplace_hint(waiting_.end(), entry.place, std::move(request));
}

void CallerCore::send(BootTime now, CallRequest&& request, Entry& entry) {
  if (entry.deadline != BootTime{}) request.timeout = std::max(entry.deadline - now, std::chrono::nanoseconds(1));
  entry.sent = true;
  entry.place = outbox_.added_position();
  ++sent_calls_;
  sent_bytes_ += entry.bytes;
  put_call_header(outbox_.tail(), request);
  outbox_.add_body(std::move(request.body));
}

void CallerCore::send_waiting(BootTime now) {
  while (!waiting_.empty()) {
    const auto first = waiting_.begin();
    Entry& entry = *calls_.find(first->second.request_id);
    if (!has_room(entry.bytes)) return;
    CallRequest request = std::move(first->second);
    waiting_.erase(first);
    waiting_bytes_ -= entry.bytes;
    send(now, std::move(request), entry);
  }
}

// Reports the error to the caller. A sent call occupies the window until the host answers the cancel.
void CallerCore::abandon(uint64_t request_id, Entry& entry, Error error) {
  if (!rooms_.empty()) rooms_.erase(request_id);
  finish(std::move(entry.done), make_error(std::move(error)));
  if (entry.sent) {
    entry.abandoned = true;
    put_plain(outbox_.tail(), FrameKind::kCancel, request_id);
    outbox_.added();
    return;
  }
  waiting_bytes_ -= entry.bytes;
  waiting_.erase(entry.place);
  calls_.erase(&entry);
}

void CallerCore::on_cancel(BootTime now, uint64_t request_id) {
  Entry* entry = calls_.find(request_id);
  if (entry == nullptr || entry->abandoned) return;
  abandon(request_id, *entry, cancelled_by_caller(entry->sent));
  send_waiting(now);  // A large call may have blocked the others.
}

void CallerCore::on_give_back() {
  while (!waiting_.empty()) {
    const auto last = std::prev(waiting_.end());
    const uint64_t request_id = last->second.request_id;
    Entry* const entry = calls_.find(request_id);
    if (!rooms_.empty()) rooms_.erase(request_id);
    waiting_bytes_ -= entry->bytes;
    finish(std::move(entry->done), make_error(given_back()));
    waiting_.erase(last);
    calls_.erase(entry);
  }
  if (sent_calls_ == 0) return;
  put_plain(outbox_.tail(), FrameKind::kGiveBack);
  outbox_.added();
}

Result<void> CallerCore::on_frame(BootTime now, Frame&& frame) {
  switch (frame.kind) {
    case FrameKind::kHello:
      window_ = frame.hello.window;
      send_waiting(now);
      return {};
    case FrameKind::kCredit:
      window_ = frame.window;
      send_waiting(now);
      return {};
    case FrameKind::kReply:
      on_answer(now, frame.request_id, std::move(frame.body), frame.in_room);
      return {};
    case FrameKind::kError:
      on_answer(now, frame.request_id, make_error(std::move(frame.error)));
      return {};
    case FrameKind::kPing:
      if (outbox_.bytes() > kFrameBytesMax) return {};  // The peer sends pings but does not read.
      put_plain(outbox_.tail(), FrameKind::kPong, frame.request_id);
      outbox_.added();
      return {};
    case FrameKind::kPong:
      return {};
    case FrameKind::kGoodbye:
      return make_error(ErrorCode::kUnavailable, fmt::format("{} closed: {}", peer_, frame.body));
    case FrameKind::kCall:
    case FrameKind::kCancel:
    case FrameKind::kGiveBack:
      break;
  }
  return make_error(ErrorCode::kInvalidArgument, "call channel: the host sent a frame that only callers send");
}

std::span<char> CallerCore::room(uint64_t request_id, size_t answer_bytes) const {
  const auto room = rooms_.find(request_id);
  return room == rooms_.end() || room->second->bytes.size() > answer_bytes ? std::span<char>() : room->second->bytes;
}

void CallerCore::on_answer(BootTime now, uint64_t request_id, Result<std::string>&& result, size_t in_room) {
  Entry* const entry = calls_.find(request_id);
  if (entry == nullptr || !entry->sent) return;  // Duplicate reply; the first one counted.
  --sent_calls_;
  sent_bytes_ -= entry->bytes;
  if (!rooms_.empty()) {
    if (auto room = rooms_.extract(request_id); !room.empty()) room.mapped()->filled = in_room > 0;
  }
  if (!entry->abandoned) finish(std::move(entry->done), std::move(result));
  calls_.erase(entry);
  send_waiting(now);
}

void CallerCore::add_deadline(BootTime when, uint64_t request_id) {
  const auto order = [](const Deadline& a, const Deadline& b) { return later(a.when, b.when); };
  if (deadlines_.size() > 2 * calls_.size() + kDeadlinesSpare) {
    std::erase_if(deadlines_, [this](const Deadline& deadline) { return !is_live(deadline); });
    std::make_heap(deadlines_.begin(), deadlines_.end(), order);
  }
  deadlines_.push_back({when, request_id});
  std::push_heap(deadlines_.begin(), deadlines_.end(), order);
}

bool CallerCore::is_live(const Deadline& deadline) {
  const Entry* entry = calls_.find(deadline.request_id);
  return entry != nullptr && !entry->abandoned && entry->deadline == deadline.when;
}

void CallerCore::on_tick(BootTime now) {
  while (!deadlines_.empty() && deadlines_.front().when <= now) {
    const Deadline deadline = deadlines_.front();
    std::pop_heap(deadlines_.begin(), deadlines_.end(),
                  [](const Deadline& a, const Deadline& b) { return later(a.when, b.when); });
    deadlines_.pop_back();
    if (!is_live(deadline)) continue;
    Entry& entry = *calls_.find(deadline.request_id);
    abandon(deadline.request_id, entry, timed_out(entry.sent, peer_));
  }
  send_waiting(now);
}

std::optional<BootTime> CallerCore::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.front().when;
}

void CallerCore::on_lost(const std::string& why) {
  if (lost_) return;
  lost_ = not_sent(peer_, why);
  const Error unknown = lost_while_it_ran(peer_, why);
  calls_.for_each([&](uint64_t, Entry& entry) {
    if (entry.abandoned) return;
    const bool written = entry.sent && entry.place < outbox_.touched_position();
    finish(std::move(entry.done), make_error(written ? unknown : *lost_));
  });
  calls_.clear();
  waiting_.clear();
  deadlines_.clear();
  rooms_.clear();
  waiting_bytes_ = sent_calls_ = sent_bytes_ = 0;
}

void CallerCore::on_close() {
  if (lost_) return;
  lost_ = closed_by_this_process(peer_);
  calls_.for_each([&](uint64_t, Entry& entry) {
    if (!entry.abandoned) finish(std::move(entry.done), make_error(*lost_));
  });
  calls_.clear();
  waiting_.clear();
  deadlines_.clear();
  rooms_.clear();
  waiting_bytes_ = sent_calls_ = sent_bytes_ = 0;
}

void CallerCore::check_invariants() {
  size_t sent = 0;
  size_t sent_bytes = 0;
  size_t waiting_bytes = 0;
  calls_.for_each([&](uint64_t id, Entry& entry) {
    VOLADOR_CHECK(entry.sent || waiting_.at(entry.place).request_id == id, "caller: a call waits under another id");
    VOLADOR_CHECK(entry.abandoned != static_cast<bool>(entry.done), "caller: a call without a caller");
    sent += entry.sent ? 1 : 0;
    (entry.sent ? sent_bytes : waiting_bytes) += entry.bytes;
  });
  for (const auto& [id, room] : rooms_)
    VOLADOR_CHECK(calls_.find(id) != nullptr && !calls_.find(id)->abandoned, "caller: a room without a caller");
  VOLADOR_CHECK(sent == sent_calls_ && sent_bytes == sent_bytes_, "caller: sent calls");
  VOLADOR_CHECK(calls_.size() - sent == waiting_.size() && waiting_bytes == waiting_bytes_, "caller: waiting calls");
  VOLADOR_CHECK(waiting_.empty() || !has_room(calls_.find(waiting_.begin()->second.request_id)->bytes),
                "caller: a call waits though there is room");
}

}  // namespace volador::net
