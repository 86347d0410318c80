// What the host's end of one connection knows: which calls run, and how many more the caller may send.
// Pure: frames and replies in; bytes (the outbox), requests and cancels out.
#pragma once

#include <optional>
#include <vector>

#include "runtime/net/frame.h"
#include "runtime/net/outbox.h"
#include "runtime/net/request_table.h"

namespace volador::net {

struct CalleeLimits {
  size_t calls_max = 1000;
  size_t calls_first = 64;  // Taken at once before the size of replies is known.
  size_t calls_least = 1;   // However large they are.
  size_t bytes_max = size_t{16} << 20;
  size_t later_max = 100'000;  // Further ones, which are answered later.
  size_t replies_bytes_aim = size_t{64} << 20;
  size_t replies_bytes_max = size_t{256} << 20;
};

class CalleeCore {
 public:
  explicit CalleeCore(CalleeLimits limits);

  // What a frame asks of the shell; at most one is set.
  struct Event {
    void** call = nullptr;   // The frame's: where the shell notes its own of it, until the next frame.
    void* cancel = nullptr;  // What it noted of a call that runs.
    bool give_back = false;  // What has not begun of the calls before.
  };
  // kInvalidArgument: the peer broke the protocol; close. kUnavailable: it said goodbye.
  [[nodiscard]] Result<Event> on_frame(const Frame& frame);

  // Puts the answer into the outbox. Of a call that does not run (any more) nothing is sent.
  void on_reply(uint64_t request_id, Result<std::string>&& result);
  // Its answer comes later: from now on it takes no room in the window.
  void on_answer_later(uint64_t request_id);
  // The last frame: why this side closes.
  void say_goodbye(std::string_view why);

  // False while the caller does not read what it got: nothing more is taken from it, so that answers cannot pile up.
  bool wants_input() const { return outbox_.bytes() <= limits_.replies_bytes_aim; }
  const std::optional<Hello>& hello() const { return hello_; }
  Outbox& outbox() { return outbox_; }
  // With what the shell noted of each call that runs.
  template <class Function>
  void for_each_running(Function&& function) {
    running_.for_each([&](uint64_t, const Running& one) { function(one.noted); });
  }
  size_t running() const { return running_.size(); }
  Window window() const { return window_; }

 private:
  struct Running {
    size_t bytes = 0;  // What it weighs.
    void* noted = nullptr;
    bool later = false;  // It is answered later.
  };

  void announce(size_t calls);
  void put_answer(uint64_t request_id, Result<std::string>&& result);
  void adapt_window(size_t reply_bytes);

  const CalleeLimits limits_;
  Outbox outbox_;
  std::optional<Hello> hello_;
  RequestTable<Running> running_;
  size_t running_bytes_ = 0;
  size_t later_calls_ = 0;  // Those that run and are answered later: the window is larger by them.
  size_t later_bytes_ = 0;
  size_t calls_at_once_;    // Others, as last announced.
  Window window_;           // As last announced.
  Window window_most_;      // The largest of each that was: what the caller may have sent.
  size_t reply_estimate_;   // Bytes; the largest of late, fading.
};

}  // namespace volador::net
