// When an actor's health check is due, and whether what became of it is a death.
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

class HealthWatch {
 public:
  struct Options {
    std::string method;  // For people: "Store::alive".
    std::chrono::nanoseconds period{};
    std::chrono::nanoseconds timeout{};
    std::chrono::nanoseconds turn_timeout{};  // 0: none.
    int failures = 1;
  };
  // A longer delay of on_time() says that the process stood still: none of it counts.
  static constexpr std::chrono::seconds kOwnPause{1};

  HealthWatch(Options options, BootTime now) : options_(std::move(options)), since_(now) {}

  struct Step {
    bool run = false;                      // Start the check; it gets its turn behind the actor's calls.
    std::optional<std::string> unhealthy;  // The actor is to end, of this.
  };
  // The time has come of which next() spoke, or it is early: then nothing happens.
  // `parked`: what runs may wait for the node's lease; that time does not count.
  Step on_time(BootTime now, bool parked = false);
  // The check that was started has its turn.
  void on_started(BootTime now);
  // It returned; an error says what was wrong.
  Step on_ended(BootTime now, const Result<void>& how);
  // When on_time() is due; none: something else comes first.
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
