// Time, handed in. Boot time decides (leases, timeouts), wall time is for people.
#pragma once

#include <chrono>
#include <cstdint>

namespace volador {

// CLOCK_BOOTTIME: goes on during suspend, never jumps, has a meaning on one machine only.
struct BootClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;
};
using BootTime = BootClock::time_point;
using WallTime = std::chrono::sys_time<std::chrono::nanoseconds>;

// Rounded down; of the epoch 0.
constexpr int64_t unix_ms(WallTime at) { return std::chrono::floor<std::chrono::milliseconds>(at.time_since_epoch()).count(); }

// Thread safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual BootTime now() const = 0;
  virtual WallTime wall() const = 0;
};

class SystemClock final : public Clock {
 public:
  BootTime now() const override;
  WallTime wall() const override;
};

// Stands still until it is moved. One thread.
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
