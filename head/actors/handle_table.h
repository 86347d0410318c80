// Which actors somebody still has a handle on: programs and processes of actors hold them, answers under way have them lent.
//
//   add ─► held ◄─► unheld (nobody holds it, and no answer with a handle is under way) ─► long enough: to be ended
//
// A claim may overtake the lending that it belongs to: then the count is below zero for a moment.
//
// A light actor (runtime/light_id.h) is known from the first word on it, and ends with its handles once its maker has said that one left it:
// until then only its maker knows whether it has one.
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

// A program, the process of an actor, or the objects in a node's store.
struct Holder {
  DriverId driver;
  HostId host;
  NodeId node = {};

  auto operator<=>(const Holder&) const = default;
};

class HandleTable {
 public:
  // `grace`: how long an actor is left alone that nobody holds. `lend_patience`: until a handle that was lent must be claimed.
  // `lights_max`: light actors that are known; others live until their maker ends.
  HandleTable(std::chrono::nanoseconds grace, std::chrono::nanoseconds lend_patience, size_t lights_max)
      : grace_(grace), lend_patience_(lend_patience), lights_max_(lights_max) {}

  // One that ends with its handles, unheld since `since`; others are not counted, whatever is said of them. Repeated: no effect.
  void add(BootTime since, ActorId actor);
  void forget(ActorId actor);  // And the light ones of which it is the home.
  // A light one, of which something was or is about to be said. False: there are too many. Repeated: no effect.
  bool meet_light(BootTime since, ActorId light);
  // From now on it ends with its handles.
  void pass_on(ActorId light);
  // Repeated: no effect.
  void hold(ActorId actor, const Holder& holder);
  void release(BootTime now, ActorId actor, const Holder& holder);
  void release_all(BootTime now, const Holder& holder);
  // The same, for good.
  void gone(BootTime now, const Holder& holder);
  // Whether a message of the holder is later than all before; says so once.
  bool is_later(const Holder& holder, uint64_t sequence);
  void lend(BootTime now, ActorId actor);
  void claim(BootTime now, ActorId actor);

  // To be ended, as far as this table knows: unheld for the grace. Gives up what was lent for too long.
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
    bool ends = true;  // With its handles.
  };

  void settle(BootTime now, ActorId actor, Entry& entry);

  const std::chrono::nanoseconds grace_;
  const std::chrono::nanoseconds lend_patience_;
  const size_t lights_max_;
  std::unordered_map<ActorId, Entry> entries_;
  std::map<Holder, std::set<ActorId>> held_by_;
  std::map<Holder, uint64_t> sequences_;  // Of its last message.
  std::set<std::pair<BootTime, ActorId>> unheld_;  // Since when.
  std::set<std::pair<BootTime, ActorId>> lent_;    // Until when.
  std::map<ActorId, std::set<ActorId>> lights_;    // By their homes.
  size_t lights_known_ = 0;
};

}  // namespace volador::head
