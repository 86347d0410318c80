// Event loop for sockets, timers and posted functions, shared by all channels of a process.
//
//   any thread ── post ──▶ queue ─┐
//   kernel ── readiness ──────────┼──▶ the leading thread: on_events, timers, posted functions; each runs to completion
//   clock ── timers ──────────────┘
//
// A loop has its own thread, which leads unless a waiting thread leads in its place (led_loop.h). One thread leads at
// any time, and its effects are visible to the next leader: "loop thread" means the leader. Code on the loop must not
// block: it would delay every connection.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "runtime/clock.h"
#include "runtime/led_loop.h"
#include "runtime/result.h"
#include "runtime/unique_function.h"

namespace volador::net {

// Target of a watched descriptor. Kept alive by the loop while it is watched.
class Pollable {
 public:
  virtual ~Pollable() = default;
  // `events`: flags of epoll(7). Loop thread.
  virtual void on_events(uint32_t events) = 0;
};

// The I/O loop and its thread.
class IoLoop final : public LedLoop {
 public:
  using TimerId = uint64_t;  // 0: none.

  // Starts the thread. kUnavailable: no descriptors or threads are left.
  [[nodiscard]] static Result<std::unique_ptr<IoLoop>> create(std::string name = "volador-io");
  // Runs the functions posted so far, then ends the thread. Close the connections and servers on the loop first.
  ~IoLoop() override;
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  // Any thread. Functions run in posting order; they are dropped after the loop has ended.
  void post(UniqueFunction<void()> function);
  // Runs the function on the loop and waits for it; directly if called on the loop or after its end.
  void run(const std::function<void()>& function);
  bool in_loop() const;

  // Any thread. Fires once, not before `when`. Cancelling a fired or unknown timer has no effect; a timer cancelled on
  // the loop's thread does not fire.
  TimerId add_timer(BootTime when, std::function<void()> function);
  void cancel_timer(TimerId timer);
  BootTime now() const;

  // Any thread. Level-triggered; unwatch a descriptor before closing it.
  [[nodiscard]] Result<void> watch(int fd, uint32_t events, std::shared_ptr<Pollable> target);
  void change(int fd, uint32_t events);
  void unwatch(int fd);

  // See LedLoop.
  void run_until(const std::function<bool()>& reached, const Deadline& until) override;
  void interrupt() override;
  void lead() override;

  // Scratch space for one read inside on_events; 256 KiB. Loop thread.
  std::span<char> read_buffer();

 private:
  struct Impl;
  explicit IoLoop(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::net
