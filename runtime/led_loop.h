// Leader/Followers pattern (Schmidt et al., POSA 2) for the I/O loop of a process: a thread that waits for a reply runs
// the loop itself and reads the reply, which avoids a hand-over between threads with its wake-up and scheduling delay.
//
//   waiting thread ── run_until() ──▶ leads: reads sockets, runs timers, until its result has arrived
//   other waiting threads ───────────▶ Follower: sleep; the loop's own thread leads
//   no waiting thread ───────────────▶ the loop's own thread leads after about a millisecond
//
// Lower layers wait (events), while the loop is in a higher layer, which installs it here.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>

namespace volador {

// A loop that waiting threads can lead.
class LedLoop {
 public:
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;

  virtual ~LedLoop() = default;
  // Runs the loop on the calling thread until `reached()`, which is called frequently and only here, or until `until`.
  // Returns early, possibly at once, if another thread leads. Code on the loop must not block.
  virtual void run_until(const std::function<bool()>& reached, const Deadline& until) = 0;
  // Makes the leading thread call its `reached()` again. Any thread.
  virtual void interrupt() = 0;
  // Makes the loop's own thread lead at once. Called by a thread that waits for the loop and does not lead.
  virtual void lead() = 0;

  // ---- the loop of this process ----

  static void install(LedLoop* loop);
  // Removes the loop; afterwards no thread is inside one of its functions. No effect if another loop is installed.
  static void remove(LedLoop* loop);
  static void run_installed_until(const std::function<bool()>& reached, const Deadline& until);
  static void interrupt_installed();
  static void lead_installed();

  // While it lives, its thread waits for a reply and another thread leads.
  class Follower {
   public:
    Follower();
    ~Follower() { count_.fetch_sub(1); }
    Follower(const Follower&) = delete;
    Follower& operator=(const Follower&) = delete;
    static int count() { return count_.load(); }

   private:
    static inline std::atomic<int> count_{0};
  };

 private:
  class Use;
};

}  // namespace volador
