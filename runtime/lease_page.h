// Shared memory page of a node with the deadline until which its hosts may commit. Written by the worker, read by every
// host around every call.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/clock.h"

namespace volador {

// Contents of the lease page.
struct LeasePage {
  static constexpr uint64_t kMagic = 0x31304553414c4456;  // "VDLEAS01"

  uint64_t magic;
  std::atomic<int64_t> deadline_boot_ns;  // CLOCK_BOOTTIME; from then on calls wait and nothing is committed.

  bool valid_at(BootTime now) const {
    return now.time_since_epoch().count() < deadline_boot_ns.load(std::memory_order_acquire);
  }
};
static_assert(std::atomic<int64_t>::is_always_lock_free);

}  // namespace volador
