// State of the host's end of a connection: running calls, and how many more the caller may send. Pure: frames and
// replies in; bytes (the outbox), requests and cancels out.
#pragma once

#include <optional>
#include <vector>

#include "runtime/net/frame.h"
#include "runtime/net/outbox.h"
#include "runtime/net/request_table.h"

namespace volador::net {

// Limits of a CalleeCore.
struct CalleeLimits {
  size_t calls_max = 1000;
  size_t calls_first = 64;  // Window before the size of replies is known.
  size_t calls_least = 1;   // Minimum window, regardless of reply size.
  size_t bytes_max = size_t{16} << 20;
  size_t later_max = 100'000;  // Further calls that are answered later.
  size_t replies_bytes_aim = size_t{64} << 20;
  size_t replies_bytes_max = size_t{256} << 20;
};

// State machine of the host's end of one connection.
class CalleeCore {
 public:
  explicit CalleeCore(CalleeLimits limits);

  // Request of a frame to the shell; at most one member is set.
  struct Event {
    void** call = nullptr;   // A new call: slot for the shell's pointer to it, valid until the next frame.
    void* cancel = nullptr;  // The shell's pointer of the running call to cancel.
    bool give_back = false;  // Return earlier calls that have not begun.
  };
  // kInvalidArgument: protocol error; close. kUnavailable: the peer sent goodbye.
  [[nodiscard]] Result<Event> on_frame(const Frame& frame);

  // Queues the reply. Ignored for a call that is not running.
  void on_reply(uint64_t request_id, Result<std::string>&& result);
  // The reply comes later: the call no longer occupies the window.
  void on_answer_later(uint64_t request_id);
  // Queues the last frame, with the reason for closing.
  void say_goodbye(std::string_view why);

  // False while the caller does not read its replies: no more calls are read, so that replies cannot accumulate.
  bool wants_input() const { return outbox_.bytes() <= limits_.replies_bytes_aim; }
  const std::optional<Hello>& hello() const { return hello_; }
  Outbox& outbox() { return outbox_; }
  // Calls the function with the shell's pointer of each running call.
  template <class Function>
  void for_each_running(Function&& function) {
    running_.for_each([&](uint64_t, const Running& one) { function(one.noted); });
  }
  size_t running() const { return running_.size(); }
  Window window() const { return window_; }

 private:
  struct Running {
    size_t bytes = 0;  // Size in the window.
    void* noted = nullptr;
    bool later = false;  // Answered later.
  };

  void announce(size_t calls);
  void put_answer(uint64_t request_id, Result<std::string>&& result);
  void adapt_window(size_t reply_bytes);

  const CalleeLimits limits_;
  Outbox outbox_;
  std::optional<Hello> hello_;
  RequestTable<Running> running_;
  size_t running_bytes_ = 0;
  size_t later_calls_ = 0;  // Running calls that are answered later; they enlarge the window.
  size_t later_bytes_ = 0;
  size_t calls_at_once_;   // Number of other calls, as last announced.
  Window window_;          // As last announced.
  Window window_most_;     // Maximum of all announced windows: what the caller may have sent.
  size_t reply_estimate_;  // Bytes; decaying maximum of recent replies.
};

}  // namespace volador::net
