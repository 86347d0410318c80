// The node's lease, as a host sees it.
#pragma once

#include <chrono>
#include <thread>

#include "runtime/clock.h"
#include "runtime/lease_page.h"
#include "runtime/log.h"

namespace volador {

// Thread safe. Parked: the deadline has passed and no head has renewed the lease yet.
class HostLease {
 public:
  explicit HostLease(const Clock& clock) : clock_(clock) {}
  void set_page(const LeasePage* page) { page_ = page; }

  bool valid() const { return page_ == nullptr || page_->valid_at(clock_.now()); }

  // Returns the time once the lease is valid, usually `now`; waits as long as it is not. Beyond park_max the worker
  // ends this process.
  BootTime wait_until_valid(BootTime now) const {
    if (page_ == nullptr || page_->valid_at(now)) return now;
    log::warn("host", "parked: the node's lease has run out, calls wait until a head confirms it");
    while (!valid()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    log::info("host", "goes on: the lease was renewed");
    return clock_.now();
  }

 private:
  const LeasePage* page_ = nullptr;
  const Clock& clock_;
};

}  // namespace volador
