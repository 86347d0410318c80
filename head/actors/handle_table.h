// Reference counts of actor handles: held by programs and actor processes, or borrowed by replies in transit.
//
//   add ─► held ◄─► unheld (no holder, and no reply with a handle in transit) ─► grace period over: to be ended
//
// A claim may arrive before the matching lend; the count is then negative for a moment.
//
// A nested actor (runtime/light_id.h) is tracked from the first message that mentions it. It ends with its handles only
// after its owner has reported that a handle left the owner process; until then only the owner knows whether handles
// exist.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/clock.h"
#include "runtime/ids.h"

namespace volador::head {

// A program, an actor's process, or the objects in a node's store.
struct Holder {
  DriverId driver;
  HostId host;
  NodeId node = {};

  auto operator<=>(const Holder&) const = default;
};

// Counts the handles on actors.
class HandleTable {
 public:
  // `grace`: how long an actor without holders is kept. `lend_patience`: time within which a lent handle must be
  // claimed. `lights_max`: limit of tracked nested actors; others live as long as their owner.
  HandleTable(std::chrono::nanoseconds grace, std::chrono::nanoseconds lend_patience, size_t lights_max)
      : grace_(grace), lend_patience_(lend_patience), lights_max_(lights_max) {}

  // Starts reference-counting `actor`, unheld since `since`. Calls for actors not added are ignored. Idempotent.
  void add(BootTime since, ActorId actor);
  void forget(ActorId actor);  // Also removes the nested actors it owns.
  // Registers a nested actor seen in a message. Returns false if there are too many. Idempotent.
  bool track_nested_actor(BootTime since, ActorId light);
  // Marks the nested actor as shared: it ends with its handles.
  void pass_on(ActorId light);
  // Idempotent.
  void hold(ActorId actor, const Holder& holder);
  void release(BootTime now, ActorId actor, const Holder& holder);
  void release_all(BootTime now, const Holder& holder);
  // Same as release_all(); the holder never returns.
  void gone(BootTime now, const Holder& holder);
  // Returns whether the message is newer than all earlier ones of the holder, and records it.
  bool is_later(const Holder& holder, uint64_t sequence);
  void lend(BootTime now, ActorId actor);
  void claim(BootTime now, ActorId actor);

  // Returns the actors to end: unheld for the grace period. Also drops lent handles that were not claimed in time.
  std::vector<ActorId> unheld(BootTime now);
  std::optional<BootTime> unheld_since(ActorId actor) const;
  size_t holders(ActorId actor) const;
  size_t size() const { return entries_.size(); }

  void check_invariants() const;

 private:
  struct Entry {
    std::set<Holder> holders;
    int64_t lent = 0;
    BootTime lent_until{};
    std::optional<BootTime> unheld;
    bool ends = true;  // Ends with its handles.
  };

  void settle(BootTime now, ActorId actor, Entry& entry);

  const std::chrono::nanoseconds grace_;
  const std::chrono::nanoseconds lend_patience_;
  const size_t lights_max_;
  std::unordered_map<ActorId, Entry> entries_;
  std::map<Holder, std::set<ActorId>> held_by_;
  std::map<Holder, uint64_t> sequences_;           // Sequence of the last message.
  std::set<std::pair<BootTime, ActorId>> unheld_;  // With the start of the unheld period.
  std::set<std::pair<BootTime, ActorId>> lent_;    // With the claim deadline.
  std::map<ActorId, std::set<ActorId>> lights_;    // By owner.
  size_t lights_known_ = 0;
};

}  // namespace volador::head
