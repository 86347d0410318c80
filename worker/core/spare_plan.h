// How many hosts of each program stand ahead of their actors, and when one is made or ended.
// Pure: no clock or I/O.
//
//   a host starts ──► its program is worth one spare more, for `kept`, up to `most` of the node
//   one is made:  while the node is quiet: no launch under way, nothing launched or ended for `quiet`; one at a time
//   one is ended: where fewer are wanted than stand, or memory is short
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

struct SpareOptions {
  size_t most = 0;                         // Of the node; 0: none are made.
  std::chrono::milliseconds kept{10'000};  // What started this long ago says nothing of what comes.
  std::chrono::milliseconds quiet{5};
  std::chrono::milliseconds pace{4};             // Between two that are made: their boot is work too.
  std::chrono::milliseconds unsettled_max{250};  // A host that takes longer to answer is not waited for.
  std::chrono::milliseconds backoff_min{1'000};  // After a spare that died or could not be made, doubled in a row.
  std::chrono::milliseconds backoff_max{60'000};
};

class SparePlan {
 public:
  using Program = uint64_t;
  struct Order {
    Program program = 0;
    bool make = false;  // Answer it with on_made() or on_not_made(), before that no other is given. Else: end one.
  };

  explicit SparePlan(const SpareOptions& options) : options_(options) {}

  // A host is asked for; its process stands; it answers, failed or ended. Of hosts that are not known only the time
  // counts.
  void on_launch(BootTime now, Program program, HostId host);
  void on_process(BootTime now, HostId host);
  void on_settled(BootTime now, HostId host);

  void on_made(BootTime now, Program program);
  void on_not_made(BootTime now, Program program);
  // One that stood is taken for an actor; false: there is none.
  bool take(Program program);
  // One that stood has ended by itself.
  void on_lost(BootTime now, Program program);
  // Memory is short: until then none is wanted.
  void hold_off(BootTime until);

  // What to do now, until it says nothing. One that is to be ended does not count any more.
  [[nodiscard]] std::optional<Order> next(BootTime now);
  // When next() may have something to say if nothing happens meanwhile.
  [[nodiscard]] std::optional<BootTime> due(BootTime now) const;
  bool knows(Program program) const { return programs_.contains(program); }
  size_t standing() const;

  // Aborts where the counts disagree.
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
  std::map<HostId, std::optional<BootTime>> unsettled_;  // Since when its process stands.
  BootTime last_activity_{};
  BootTime not_before_{};  // Of the next one.
  BootTime held_off_until_{};
  std::optional<Program> making_;
};

}  // namespace volador::worker
