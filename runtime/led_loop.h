// The Leader/Followers pattern (Schmidt et al., POSA 2) for the I/O loop of a process: a thread that waits for an answer runs the loop
// itself and reads the answer without a hand-over between threads, which costs a wake-up each and a turn of the scheduler on a busy machine.
//
//   waiting thread ── run_until() ──▶ leads: reads sockets, runs timers, until what it waits for is there
//   others that wait ────────────────▶ Follower: sleep; the loop's own thread leads
//   nobody waits ────────────────────▶ the loop's own thread leads after about a millisecond
//
// Lower layers wait (events), a higher one has the loop: it is installed here.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>

namespace volador {

class LedLoop {
 public:
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;

  virtual ~LedLoop() = default;
  // Runs the loop on the calling thread until `reached()`, which is called often and only here, or until `until`. Returns early, perhaps at once,
  // where another thread leads. What the loop runs must not block, as ever.
  virtual void run_until(const std::function<bool()>& reached, const Deadline& until) = 0;
  // What a leading thread waits for may be there: it calls its `reached()` again. Any thread.
  virtual void interrupt() = 0;
  // The caller waits for something that the loop brings, and does not lead: the loop's own thread does, at once.
  virtual void lead() = 0;

  // ---- the loop of this process ----

  static void install(LedLoop* loop);
  // After it returned no thread is in a function of the loop. Nothing where another one is installed.
  static void remove(LedLoop* loop);
  static void run_installed_until(const std::function<bool()>& reached, const Deadline& until);
  static void interrupt_installed();
  static void lead_installed();

  // While one lives its thread waits for an answer, and another one leads.
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
