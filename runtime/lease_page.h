// One page of shared memory a node: until when its hosts may commit. Written by the worker, read by every host around every call.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/clock.h"

namespace volador {

struct LeasePage {
  static constexpr uint64_t kMagic = 0x31304553414c4456;  // "VDLEAS01"

  uint64_t magic;
  std::atomic<int64_t> deadline_boot_ns;  // CLOCK_BOOTTIME; at or after it a host is parked: its calls wait, it commits nothing.

  bool valid_at(BootTime now) const { return now.time_since_epoch().count() < deadline_boot_ns.load(std::memory_order_acquire); }
};
static_assert(std::atomic<int64_t>::is_always_lock_free);

}  // namespace volador
