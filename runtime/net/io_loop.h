// Waits for sockets, timers and posted functions; every channel of a process shares one.
//
//   any thread ── post ──▶ queue ─┐
//   kernel ── readiness ──────────┼──▶ the thread that leads: on_events, timers, posted functions; each runs to completion
//   clock ── timers ──────────────┘
//
// A loop has a thread of its own, which leads unless a waiting thread does so in its place (led_loop.h). One thread leads at any time, and what
// one has done is seen by the next: "loop thread" means the one that leads.
// Nothing that runs on the loop may block: it would hold up every connection.
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

// What a watched descriptor wakes. Kept alive by the loop while it is watched.
class Pollable {
 public:
  virtual ~Pollable() = default;
  // `events` are those of epoll(7). Loop thread.
  virtual void on_events(uint32_t events) = 0;
};

class IoLoop final : public LedLoop {
 public:
  using TimerId = uint64_t;  // 0: none.

  // Starts the thread. kUnavailable: no descriptors or threads left.
  [[nodiscard]] static Result<std::unique_ptr<IoLoop>> create(std::string name = "volador-io");
  // Runs what was posted before, then ends the thread. Close the connections and servers on the loop first.
  ~IoLoop() override;
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  // Any thread. Functions run in the order they were posted; after the loop ended they are dropped.
  void post(UniqueFunction<void()> function);
  // Runs the function on the loop and waits for it; at once where the caller is the loop or the loop ended.
  void run(const std::function<void()>& function);
  bool in_loop() const;

  // Any thread. Fires once, not before `when`. Cancelling one that fired or is unknown changes nothing; one that is
  // cancelled on the loop's thread does not fire any more.
  TimerId add_timer(BootTime when, std::function<void()> function);
  void cancel_timer(TimerId timer);
  BootTime now() const;

  // Any thread. Level-triggered; a descriptor must be unwatched before it is closed.
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
