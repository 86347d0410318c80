#include "runtime/clock.h"

#include <ctime>

namespace volador {
namespace {

std::chrono::nanoseconds read(clockid_t id) {
  timespec value{};
  clock_gettime(id, &value);
  return std::chrono::seconds(value.tv_sec) + std::chrono::nanoseconds(value.tv_nsec);
}

}  // namespace

BootTime SystemClock::now() const { return BootTime(read(CLOCK_BOOTTIME)); }
WallTime SystemClock::wall() const { return WallTime(read(CLOCK_REALTIME)); }

}  // namespace volador
