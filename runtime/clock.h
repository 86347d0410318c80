// Clocks, passed as dependencies. Boot time is used for decisions (leases, timeouts), wall time for display.
#pragma once

#include <chrono>
#include <cstdint>

namespace volador {

// CLOCK_BOOTTIME: advances during suspend, never jumps, meaningful on one machine only.
struct BootClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;
};
using BootTime = BootClock::time_point;
using WallTime = std::chrono::sys_time<std::chrono::nanoseconds>;

// Rounded down; 0 for the epoch.
constexpr int64_t unix_ms(WallTime at) {
  return std::chrono::floor<std::chrono::milliseconds>(at.time_since_epoch()).count();
}

// Interface of a clock. Thread safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual BootTime now() const = 0;
  virtual WallTime wall() const = 0;
};

// The machine's clocks.
class SystemClock final : public Clock {
 public:
  BootTime now() const override;
  WallTime wall() const override;
};

// Advances only by advance() and set(). One thread.
class FakeClock final : public Clock {
 public:
  BootTime now() const override { return now_; }
  WallTime wall() const override { return WallTime(std::chrono::seconds(1'700'000'000)) + now_.time_since_epoch(); }
  void advance(std::chrono::nanoseconds by) { now_ += by; }
  void set(BootTime now) { now_ = now; }

 private:
  BootTime now_{std::chrono::seconds(1000)};
};

}  // namespace volador
