#include "head/actors/handle_table.h"

#include "runtime/light_id.h"
#include "runtime/result.h"

namespace volador::head {

void HandleTable::add(BootTime since, ActorId actor) {
  const auto [found, is_new] = entries_.try_emplace(actor);
  if (is_new) settle(since, actor, found->second);
}

bool HandleTable::track_nested_actor(BootTime since, ActorId light) {
  if (entries_.contains(light)) return true;
  if (lights_known_ >= lights_max_) return false;
  ++lights_known_;
  lights_[home_of(light)].insert(light);
  entries_[light].ends = false;
  settle(since, light, entries_[light]);
  return true;
}

void HandleTable::pass_on(ActorId light) {
  if (const auto found = entries_.find(light); found != entries_.end()) found->second.ends = true;
}

void HandleTable::forget(ActorId actor) {
  if (auto lights = lights_.extract(actor); !lights.empty()) {
    lights_known_ -= lights.mapped().size();
    for (const ActorId light : lights.mapped()) forget(light);
  } else if (is_light(actor)) {
    const auto home = lights_.find(home_of(actor));
    if (home != lights_.end() && home->second.erase(actor) > 0) --lights_known_;
    if (home != lights_.end() && home->second.empty()) lights_.erase(home);
  }
  const auto found = entries_.find(actor);
  if (found == entries_.end()) return;
  const Entry& entry = found->second;
  for (const Holder& holder : entry.holders) {
    const auto held = held_by_.find(holder);
    held->second.erase(actor);
    if (held->second.empty()) held_by_.erase(held);
  }
  if (entry.unheld) unheld_.erase({*entry.unheld, actor});
  if (entry.lent != 0) lent_.erase({entry.lent_until, actor});
  entries_.erase(found);
}

void HandleTable::settle(BootTime now, ActorId actor, Entry& entry) {
  const bool unheld = entry.holders.empty() && entry.lent <= 0;
  if (unheld == entry.unheld.has_value()) return;
  if (unheld) {
    entry.unheld = now;
    unheld_.emplace(now, actor);
  } else {
    unheld_.erase({*entry.unheld, actor});
    entry.unheld.reset();
  }
}

void HandleTable::hold(ActorId actor, const Holder& holder) {
  const auto found = entries_.find(actor);
  if (found == entries_.end() || !found->second.holders.insert(holder).second) return;
  held_by_[holder].insert(actor);
  settle({}, actor, found->second);
}

void HandleTable::release(BootTime now, ActorId actor, const Holder& holder) {
  const auto found = entries_.find(actor);
  if (found == entries_.end() || found->second.holders.erase(holder) == 0) return;
  const auto held = held_by_.find(holder);
  held->second.erase(actor);
  if (held->second.empty()) held_by_.erase(held);
  settle(now, actor, found->second);
}

bool HandleTable::is_later(const Holder& holder, uint64_t sequence) {
  uint64_t& last = sequences_[holder];
  if (sequence <= last) return false;
  last = sequence;
  return true;
}

void HandleTable::gone(BootTime now, const Holder& holder) {
  release_all(now, holder);
  sequences_.erase(holder);
}

void HandleTable::release_all(BootTime now, const Holder& holder) {
  const auto held = held_by_.extract(holder);
  if (held.empty()) return;
  for (const ActorId actor : held.mapped()) {
    Entry& entry = entries_.at(actor);
    entry.holders.erase(holder);
    settle(now, actor, entry);
  }
}

void HandleTable::lend(BootTime now, ActorId actor) {
  const auto found = entries_.find(actor);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  if (entry.lent != 0) lent_.erase({entry.lent_until, actor});
  entry.lent_until = now + lend_patience_;
  if (++entry.lent != 0) lent_.emplace(entry.lent_until, actor);
  settle(now, actor, entry);
}

void HandleTable::claim(BootTime now, ActorId actor) {
  const auto found = entries_.find(actor);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  if (entry.lent == 0) {
    entry.lent_until = now + lend_patience_;
  } else {
    lent_.erase({entry.lent_until, actor});
  }
  if (--entry.lent != 0) lent_.emplace(entry.lent_until, actor);
  settle(now, actor, entry);
}

std::vector<ActorId> HandleTable::unheld(BootTime now) {
  while (!lent_.empty() && lent_.begin()->first <= now) {
    const ActorId actor = lent_.begin()->second;
    lent_.erase(lent_.begin());
    Entry& entry = entries_.at(actor);
    entry.lent = 0;
    settle(now, actor, entry);
  }
  std::vector<ActorId> ends, only_met;
  for (const auto& [since, actor] : unheld_) {
    if (since + grace_ > now) break;
    (entries_.at(actor).ends ? ends : only_met).push_back(actor);
  }
  for (const ActorId light : only_met) forget(light);
  return ends;
}

std::optional<BootTime> HandleTable::unheld_since(ActorId actor) const {
  const auto found = entries_.find(actor);
  return found == entries_.end() ? std::nullopt : found->second.unheld;
}

size_t HandleTable::holders(ActorId actor) const {
  const auto found = entries_.find(actor);
  return found == entries_.end() ? 0 : found->second.holders.size();
}

void HandleTable::check_invariants() const {
  size_t held = 0, unheld = 0, lent = 0;
  size_t lights = 0;
  for (const auto& [home, its] : lights_) {
    VOLADOR_CHECK(!its.empty(), to_string(home));
    lights += its.size();
    for (const ActorId light : its) VOLADOR_CHECK(home_of(light) == home && entries_.contains(light), to_string(light));
  }
  VOLADOR_CHECK(lights == lights_known_, "light actors are known by their homes");
  for (const auto& [actor, entry] : entries_) {
    VOLADOR_CHECK(entry.ends || is_light(actor), to_string(actor));
    held += entry.holders.size();
    for (const Holder& holder : entry.holders) VOLADOR_CHECK(held_by_.at(holder).contains(actor), to_string(actor));
    VOLADOR_CHECK(entry.unheld.has_value() == (entry.holders.empty() && entry.lent <= 0), to_string(actor));
    if (entry.unheld) {
      ++unheld;
      VOLADOR_CHECK(unheld_.contains({*entry.unheld, actor}), to_string(actor));
    }
    if (entry.lent != 0) {
      ++lent;
      VOLADOR_CHECK(lent_.contains({entry.lent_until, actor}), to_string(actor));
    }
  }
  VOLADOR_CHECK(unheld == unheld_.size() && lent == lent_.size(), "sizes differ");
  for (const auto& [holder, actors] : held_by_) {
    VOLADOR_CHECK(!actors.empty(), to_string(holder.host));
    held -= actors.size();
  }
  VOLADOR_CHECK(held == 0, "holders differ");
}

}  // namespace volador::head
