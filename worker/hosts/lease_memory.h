// The node's lease page: shared memory that this process writes and hosts can only read.
#pragma once

#include "runtime/clock.h"
#include "runtime/lease_page.h"
#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::worker {

// Owner of the lease page.
class LeaseMemory {
 public:
  // Creates a memfd of one page, sealed against growing, shrinking and later writers. The initial deadline is 0:
  // everything is parked. kUnavailable: no descriptor or memory.
  [[nodiscard]] static Result<LeaseMemory> create();
  ~LeaseMemory();
  LeaseMemory(LeaseMemory&& other) noexcept;
  LeaseMemory& operator=(LeaseMemory&&) = delete;

  int fd() const { return fd_.get(); }
  void set_deadline(BootTime deadline);
  BootTime deadline() const;

 private:
  LeaseMemory(net::UniqueFd fd, LeasePage* page) : fd_(std::move(fd)), page_(page) {}

  net::UniqueFd fd_;
  LeasePage* page_;
};

}  // namespace volador::worker
