// State machine of an actor's health check: when it is due, and whether its outcome ends the actor.
// Pure: no clock, thread, I/O or randomness.
//
//              period over                its turn came
//   resting ───────────────► waiting ──────────────────► running ── passed ──► resting
//      ▲                        │ turn_timeout              │  │
//      └────────────────────────┼───────────────────────────┘  │ timeout: unhealthy
//        failed, less than      ▼                              ▼ failed, `failures` in a row: unhealthy
//        `failures` in a row    unhealthy
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/clock.h"
#include "runtime/result.h"

namespace volador {

// Timers and failure count of one actor's health check.
class HealthWatch {
 public:
  struct Options {
    std::string method;  // Display name: "Store::alive".
    std::chrono::nanoseconds period{};
    std::chrono::nanoseconds timeout{};
    std::chrono::nanoseconds turn_timeout{};  // 0: none.
    int failures = 1;
  };
  // A longer delay of on_time() means that the process was stopped: that time does not count.
  static constexpr std::chrono::seconds kOwnPause{1};

  HealthWatch(Options options, BootTime now) : options_(std::move(options)), since_(now) {}

  struct Step {
    bool run = false;                      // Start the check; it queues behind the actor's calls.
    std::optional<std::string> unhealthy;  // The actor must end, for this reason.
  };
  // Call at the time from next(); an early call has no effect. `parked`: running calls may wait for the node's lease;
  // that time does not count.
  Step on_time(BootTime now, bool parked = false);
  // The started check began to run.
  void on_started(BootTime now);
  // The check returned; an error describes the failure.
  Step on_ended(BootTime now, const Result<void>& how);
  // Returns when on_time() is due; nothing if another event comes first.
  std::optional<BootTime> next() const;

 private:
  enum class Phase : uint8_t { kResting, kWaiting, kRunning, kOver };

  Step end(std::string why);

  const Options options_;
  Phase phase_ = Phase::kResting;
  BootTime since_;
  int failed_ = 0;  // In a row.
};

}  // namespace volador
