// Number of prestarted hosts of each program, and when one is created or ended. Pure: no clock or I/O.
//
//   a host starts ──► its program gets one more spare, for `kept`, up to `most` per node
//   one is created: while the node is quiet: no launch in progress, no launch or end for `quiet`; one at a time
//   one is ended: if there are more than needed, or memory is short
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "runtime/clock.h"
#include "runtime/ids.h"

namespace volador::worker {

// Limits and timing of prestarted hosts.
struct SpareOptions {
  size_t most = 0;                         // Per node; 0: no spares.
  std::chrono::milliseconds kept{10'000};  // Age beyond which starts do not predict demand.
  std::chrono::milliseconds quiet{5};
  std::chrono::milliseconds pace{4};             // Between two creations, since booting a spare also costs CPU time.
  std::chrono::milliseconds unsettled_max{250};  // Hosts that take longer to answer are no longer waited for.
  std::chrono::milliseconds backoff_min{1'000};  // After a failed spare; doubles with consecutive failures.
  std::chrono::milliseconds backoff_max{60'000};
};

// Demand and spares of each program. Not thread safe.
class SparePlan {
 public:
  using Program = uint64_t;
  struct Order {
    Program program = 0;
    bool make = false;  // true: create one, then call on_made() or on_not_made() before next(). false: end one.
  };

  explicit SparePlan(const SpareOptions& options) : options_(options) {}

  // A host was requested; its process exists; it answered, failed or ended. For unknown hosts only the time counts.
  void on_launch(BootTime now, Program program, HostId host);
  void on_process(BootTime now, HostId host);
  void on_settled(BootTime now, HostId host);

  void on_made(BootTime now, Program program);
  void on_not_made(BootTime now, Program program);
  // Takes a spare for an actor; false: there is none.
  bool take(Program program);
  // A spare has ended by itself.
  void on_lost(BootTime now, Program program);
  // Memory is short: no spares are wanted until then.
  void hold_off(BootTime until);

  // Returns the next order; call until it returns nothing. A spare ordered to end is no longer counted.
  [[nodiscard]] std::optional<Order> next(BootTime now);
  // Returns when next() may have an order if no other event occurs.
  [[nodiscard]] std::optional<BootTime> due(BootTime now) const;
  bool knows(Program program) const { return programs_.contains(program); }
  size_t standing() const;

  // Aborts if the counts are inconsistent.
  void check_invariants() const;

 private:
  struct Demand {
    std::deque<BootTime> starts;  // Oldest first, at most `most`.
    size_t standing = 0;
    int failures = 0;
    BootTime not_before{};
  };
  std::deque<BootTime>::const_iterator first_late(const Demand& demand, BootTime now) const;
  size_t started_lately(const Demand& demand, BootTime now) const;
  size_t wanted(const Demand& demand, BootTime now) const;
  std::optional<BootTime> may_make_from(BootTime now) const;
  void fail(BootTime now, Demand& demand);

  const SpareOptions options_;
  std::map<Program, Demand> programs_;
  std::map<HostId, std::optional<BootTime>> unsettled_;  // Time since which the process exists.
  BootTime last_activity_{};
  BootTime not_before_{};  // Earliest time of the next creation.
  BootTime held_off_until_{};
  std::optional<Program> making_;
};

}  // namespace volador::worker
