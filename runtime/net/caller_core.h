// State of the caller's end of a connection: queued and sent calls and their outcome. Pure: frames, time and losses in;
// bytes (the outbox) and finished calls out.
//
//                room in the window
//   call ─▶ waiting ─────────────▶ sent ── reply, error ──▶ finished
//             │ cancel, timeout      │ cancel, timeout: the caller has its answer, a cancel frame goes out
//             ▼                      ▼
//          finished               abandoned ── reply, error ──▶ gone: its room in the window is free again
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/clock.h"
#include "runtime/net/frame.h"
#include "runtime/net/outbox.h"
#include "runtime/net/request_table.h"

namespace volador::net {

// Limits of a CallerCore.
struct CallerLimits {
  size_t waiting_calls_max = 100'000;
  size_t waiting_bytes_max = size_t{64} << 20;
};

// State machine of the caller's end of one connection.
class CallerCore {
 public:
  struct Finished {
    CallDone done;
    Result<std::string> result;
  };

  // `peer` names the host's end in messages. The hello is queued first in the outbox.
  CallerCore(CallerLimits limits, CallerId caller, std::string peer);

  // Sends, queues or rejects a call; errors as for CallConnection::call.
  void on_call(BootTime now, CallRequest&& request, CallDone&& done, std::shared_ptr<ReplyRoom> room = {});
  void on_cancel(BootTime now, uint64_t request_id);
  // Ends unsent calls with kCancelled, newest first, and requests the return of those that have not begun.
  void on_give_back();
  // kInvalidArgument: protocol error; call on_lost and close. kUnavailable: the peer sent goodbye; likewise.
  [[nodiscard]] Result<void> on_frame(BootTime now, Frame&& frame);
  // Ends the calls whose deadline is at or before `now`.
  void on_tick(BootTime now);
  // The connection is lost: ends every call, depending on whether the peer may have received it.
  void on_lost(const std::string& why);
  // The owner closes the connection: ends every call with kCancelled.
  void on_close();

  // Returns memory for the first bytes of this call's reply, whose size is `answer_bytes`; empty: none.
  std::span<char> room(uint64_t request_id, size_t answer_bytes) const;
  // Returns the earliest deadline; it may belong to a finished call.
  std::optional<BootTime> next_deadline() const;
  Outbox& outbox() { return outbox_; }
  // Moves the calls that finished since the previous take, in order. `into` must be empty; its memory is reused.
  void take_finished(std::vector<Finished>& into) { finished_.swap(into); }
  bool has_finished() const { return !finished_.empty(); }
  bool ready() const { return window_.has_value(); }  // The host's hello has arrived.
  bool lost() const { return lost_.has_value(); }
  size_t sent_calls() const { return sent_calls_; }  // Sent and not answered by the host.
  size_t waiting_calls() const { return waiting_.size(); }

  // Aborts if counts and tables disagree. O(calls); tests call it after each event.
  void check_invariants();

 private:
  struct Entry {
    CallDone done;
    BootTime deadline{};  // Zero: none.
    uint64_t place = 0;   // If sent: position of its first byte in the outbox; otherwise its key in waiting_.
    uint32_t bytes = 0;
    bool sent = false;
    bool abandoned = false;  // Finished for the caller but still occupying the window.
  };
  struct Deadline {
    BootTime when;
    uint64_t request_id;
  };

  bool has_room(size_t bytes) const;
  void send(BootTime now, CallRequest&& request, Entry& entry);
  void send_waiting(BootTime now);
  void finish(CallDone&& done, Result<std::string>&& result) {
    finished_.push_back({std::move(done), std::move(result)});
  }
  void abandon(uint64_t request_id, Entry& entry, Error error);
  void on_answer(BootTime now, uint64_t request_id, Result<std::string>&& result, size_t in_room = 0);
  void add_deadline(BootTime when, uint64_t request_id);
  bool is_live(const Deadline& deadline);

  const CallerLimits limits_;
  const std::string peer_;
  Outbox outbox_;
  std::optional<Window> window_;                                    // Unset before the host's hello.
  std::optional<Error> lost_;                                       // Error for further calls.
  RequestTable<Entry> calls_;                                       // Queued, sent and abandoned calls.
  std::unordered_map<uint64_t, std::shared_ptr<ReplyRoom>> rooms_;  // Rooms of unfinished calls.
  std::map<uint64_t, CallRequest> waiting_;                         // In call order.
  uint64_t next_waiting_ = 0;
  size_t waiting_bytes_ = 0;
  size_t sent_calls_ = 0;
  size_t sent_bytes_ = 0;
  std::vector<Deadline> deadlines_;  // Min-heap; entries of finished calls are removed from time to time.
  std::vector<Finished> finished_;
};

}  // namespace volador::net
