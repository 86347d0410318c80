// StoreTable: spilling objects to disk and restoring them. See the diagram in store_table.h.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/quantities.h"
#include "runtime/resources.h"
#include "runtime/store/object_name.h"
#include "worker/store/spill_choice.h"
#include "worker/store/store_table.h"

namespace volador::worker {
namespace {

constexpr int64_t kBlockBytes = 4096;  // Ranges of the file are whole blocks, so that each can be returned to the disk.
constexpr int kNamesAMessage = 256;

size_t in_blocks(int64_t bytes) { return static_cast<size_t>((bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes); }

}  // namespace

// ---- places of objects and clients that know them ----

void StoreTable::set_located(const Object& object, Hold& hold, bool located) {
  if (std::exchange(hold.located, located) != located) {
    Arena& arena = arenas_.at(object.arena);
    arena.located += located ? 1 : -1;
    // In use: other arenas are emptied first.
    if (located && arena.phase == Arena::Phase::kAsking) set_phase(arena, object.arena, Arena::Phase::kUsed);
  }
  if (!located) set_reading(object, hold, false);
}

void StoreTable::set_reading(const Object& object, Hold& hold, bool reading) {
  if (std::exchange(hold.reading, reading) != reading) arenas_.at(object.arena).reading += reading ? 1 : -1;
}

void StoreTable::forget_hold(Object& object, StoreSession client) {
  const auto held = object.references.held.find(client);
  if (held == object.references.held.end()) return;
  if (held->second.located) {
    arenas_.at(object.arena).silent = false;
    set_located(object, held->second, false);
  }
  object.references.held.erase(held);
  std::erase_if(object.pullers, [client](const auto& one) { return one.peer == client; });
}

void StoreTable::enter_memory(const ObjectKey& key, Object& object, const ArenaKey& arena, int64_t offset) {
  object.arena = arena;
  object.offset = offset;
  object.in_memory = true;
  arenas_.at(arena).residents.insert(key);
}

bool StoreTable::leave_memory(const ObjectKey& key, Object& object, StoreActions& actions) {
  const ArenaKey arena = std::exchange(object.arena, {});
  object.in_memory = false;
  Arena& state = arenas_.at(arena);
  state.residents.erase(key);
  if (arena.writer == kOwnWriter) {
    keep_spare(arena, actions);
    return false;
  }
  if (!state.writer_gone || !state.residents.empty()) return true;
  close_arena(arena, actions);
  return false;
}

void StoreTable::leave_disk(Object& object, StoreActions& actions) {
  if (!object.disk) return;
  disk_->free(static_cast<size_t>(object.disk->offset));
  actions.discard.push_back(*std::exchange(object.disk, std::nullopt));
}

// Drops disk copies of objects in memory, which only save a second write.
void StoreTable::drop_spare_files(StoreActions& actions) {
  for (auto& [key, object] : objects_) {
    if (object.in_memory && arenas_.at(object.arena).phase == Arena::Phase::kUsed) leave_disk(object, actions);
  }
}

void StoreTable::touch(const Object& object) {
  if (object.in_memory) arenas_.at(object.arena).used = ++uses_;
}

void StoreTable::set_phase(Arena& arena, const ArenaKey& key, Arena::Phase phase) {
  const bool was = arena.phase != Arena::Phase::kUsed;
  const bool is = phase != Arena::Phase::kUsed;
  arena.phase = phase;
  if (was == is) return;
  emptying_ += is ? arena.bytes : -arena.bytes;
  if (is) {
    phases_.insert(key);
  } else {
    phases_.erase(key);
  }
}

// ---- messages of processes ----

void StoreTable::locate(BootTime now, StoreSession id, Client& client, const protocol::LocateObject& message,
                        StoreActions& actions) {
  const ObjectKey key = object_key_of(message.name());
  const auto found = objects_.find(key);
  if (found == objects_.end() || !found->second.references.held.contains(id)) {
    return refuse(id, message.request(), lost(key, "this process does not refer to it"), actions);
  }
  Object& object = found->second;
  if (object.freed) return refuse(id, message.request(), gone_by_free(key), actions);
  if (object.in_memory) return answer(id, message.request(), object, actions);
  if (client.waiting >= limits_.waiting_max) {
    return refuse(id, message.request(),
                  {ErrorCode::kUnavailable,
                   fmt::format("object store: {} already", counted(client.waiting, "request of this process waits",
                                                                   "requests of this process wait"))},
                  actions);
  }
  ++client.waiting;
  object.asked.push_back({id, message.request(), false});
  if (!object.fetched || std::exchange(object.restoring, true)) return;
  wanted_.push_back(
      {.serial = next_wanted_++, .bytes = object.bytes, .until = now + limits_.room_patience, .restore = key});
  grant(actions);
}

void StoreTable::yield(StoreSession id, const protocol::YieldObjects& message) {
  for (const auto& one : message.objects()) {
    const auto found = objects_.find(object_key_of(one.name()));
    if (found == objects_.end()) continue;
    Object& object = found->second;
    const auto held = object.references.held.find(id);
    // Outdated answer: the client received the place again, or was asked again.
    if (held == object.references.held.end() || !held->second.located || held->second.asked != one.serial()) continue;
    Arena& arena = arenas_.at(object.arena);
    arena.silent = false;
    switch (one.answer()) {
      case protocol::YieldObjects::YIELDED:
        set_located(object, held->second, false);
        break;
      case protocol::YieldObjects::READING:
        set_reading(object, held->second, true);
        break;
      default:
        held->second.asked = 0;
        touch(object);
        if (!wanted_.empty()) arena.spared_for = wanted_.front().serial;
    }
    if (one.answer() != protocol::YieldObjects::YIELDED && arena.phase == Arena::Phase::kAsking)
      set_phase(arena, object.arena, Arena::Phase::kUsed);
  }
}

void StoreTable::ask_to_yield(const std::vector<ObjectKey>& objects, bool insist, bool freed, StoreActions& actions) {
  std::map<StoreSession, protocol::FromStore> questions;
  const auto finish = [&](StoreSession client, protocol::FromStore& question) {
    question.mutable_reclaim()->set_insist(insist);
    question.mutable_reclaim()->set_freed(freed);
    actions.send.push_back({client, std::move(question), {}});
    question.Clear();
  };
  for (const ObjectKey& key : objects) {
    for (auto& [client, hold] : objects_.at(key).references.held) {
      if (!hold.located) continue;
      hold.asked = ++serial_;
      protocol::FromStore& question = questions[client];
      auto& one = *question.mutable_reclaim()->add_objects();
      *one.mutable_name() = to_message(key);
      one.set_serial(hold.asked);
      if (question.reclaim().objects_size() >= kNamesAMessage) finish(client, question);
    }
  }
  for (auto& [client, question] : questions) {
    if (question.reclaim().objects_size() > 0) finish(client, question);
  }
}

void StoreTable::free(StoreSession id, const ObjectKey& key, StoreActions& actions) {
  const auto found = objects_.find(key);
  if (found == objects_.end()) return;
  // For a copy, its owner node's store sends it.
  const bool from_home = key.node != node_ && clients_.at(id).writer == kOwnWriter;
  if ((!from_home && !found->second.references.held.contains(id)) || std::exchange(found->second.freed, true)) return;
  Object& object = found->second;
  if (key.node != node_ && !from_home)
    actions.home.push_back({key, object.address, StoreActions::Home::What::kFree, false});
  for (const auto& [client, hold] : object.references.held) {
    const std::string& address = clients_.at(client).address;
    if (client != id && !address.empty())
      actions.home.push_back({key, address, StoreActions::Home::What::kFreeCopy, false});
  }
  object.restoring = false;
  if (object.fetched) refuse_asked(object, gone_by_free(key), actions);
  leave_disk(object, actions);
  if (!object.in_memory) return release_contained_refs(object);
  freed_.insert(key);
  ask_to_yield({key}, true, true, actions);
}

// Called when the object has no readers left. By value: the caller's key may be part of the removed state.
void StoreTable::forget_freed(ObjectKey key, StoreActions& actions) {
  Object& object = objects_.at(key);
  const auto& held = object.references.held;
  if (std::any_of(held.begin(), held.end(), [](const auto& one) { return one.second.located; })) return;
  freed_.erase(key);
  const ArenaKey arena = object.arena;
  leave_disk(object, actions);
  if (object.in_memory && leave_memory(key, object, actions)) tell_freed(arena, {key.number}, actions);
  release_contained_refs(object);
}

// ---- emptying arenas ----

int64_t StoreTable::missing_room() const {
  return wanted_.empty() ? 0 : used_ + wanted_.front().bytes - limits_.bytes_max;
}

bool StoreTable::can_empty(const Arena& arena) const {
  return arena.phase == Arena::Phase::kUsed && !arena.residents.empty() && arena.reading == 0 && arena.writes == 0 &&
         !arena.silent;
}

void StoreTable::make_room(BootTime now, StoreActions& actions) {
  for (auto key = freed_.begin(); key != freed_.end();) forget_freed(*key++, actions);
  drop_contents(actions);
  advance(now, actions);
  const int64_t missing = missing_room() - emptying_;
  if (missing <= 0 || !disk_ || paused_until_) return;
  std::vector<SpillCandidate> candidates;
  std::vector<ArenaKey> keys;
  for (const auto& [key, arena] : arenas_) {
    if (!can_empty(arena)) continue;
    candidates.push_back({keys.size(), arena.bytes, arena.used});
    keys.push_back(key);
  }
  for (const size_t index : choose_spill(candidates, missing)) start_emptying(now, keys[index], actions);
  advance(now, actions);
}

void StoreTable::start_emptying(BootTime now, const ArenaKey& key, StoreActions& actions) {
  Arena& arena = arenas_.at(key);
  set_phase(arena, key, Arena::Phase::kAsking);
  arena.until = now + limits_.yield_patience;
  if (arena.located == 0) return;
  ask_to_yield({arena.residents.begin(), arena.residents.end()},
               !wanted_.empty() && arena.spared_for == wanted_.front().serial, false, actions);
}

void StoreTable::advance(BootTime now, StoreActions& actions) {
  const std::vector<ArenaKey> keys(phases_.begin(), phases_.end());
  for (const ArenaKey& key : keys) {
    const auto found = arenas_.find(key);
    if (found == arenas_.end()) continue;
    Arena& arena = found->second;
    // Its writer reused the room.
    if (arena.phase == Arena::Phase::kEmptied && !arena.residents.empty()) set_phase(arena, key, Arena::Phase::kUsed);
    if (arena.phase != Arena::Phase::kAsking || arena.located > 0) continue;
    if (missing_room() > emptying_ - arena.bytes) {
      start_writing(now, key, actions);
    } else {
      set_phase(arena, key, Arena::Phase::kUsed);  // Other arenas released enough meanwhile.
    }
  }
}

void StoreTable::start_writing(BootTime now, const ArenaKey& key, StoreActions& actions) {
  Arena& arena = arenas_.at(key);
  set_phase(arena, key, Arena::Phase::kWriting);
  for (const ObjectKey& resident : arena.residents) {
    Object& object = objects_.at(resident);
    if (object.disk || object.writing || object.freed) continue;
    auto offset = disk_->allocate(in_blocks(object.bytes));
    if (!offset) {
      drop_spare_files(actions);
      offset = disk_->allocate(in_blocks(object.bytes));
    }
    if (!offset) {
      pause_spilling(now, fmt::format("no room in the spill file for an object of {}", format_bytes(object.bytes)));
      return set_phase(arena, key, Arena::Phase::kUsed);
    }
    object.writing = true;
    ++arena.writes;
    actions.spill.push_back({resident, key, object.offset, {static_cast<int64_t>(*offset), object.bytes, nullptr}});
  }
  if (arena.writes == 0) finish_emptying(now, key, actions);
}

StoreActions StoreTable::on_spilled(BootTime now, const StoreActions::Spill& spill, Result<SpillSums> outcome) {
  StoreActions actions;
  progress_ = now_ = now;
  if (const auto arena = arenas_.find(spill.arena); arena != arenas_.end()) --arena->second.writes;
  const auto found = objects_.find(spill.key);
  const bool is_known = found != objects_.end() && std::exchange(found->second.writing, false);
  if (is_known && outcome && !found->second.freed && !found->second.disk) {
    found->second.disk = SpillPlace{spill.to.offset, spill.to.bytes, *outcome};
    spill_trouble_.clear();
  } else {
    disk_->free(static_cast<size_t>(spill.to.offset));
    actions.discard.push_back(spill.to);
  }
  if (!outcome) pause_spilling(now, outcome.error().message);
  const auto arena = arenas_.find(spill.arena);
  if (arena != arenas_.end() && arena->second.phase == Arena::Phase::kWriting && arena->second.writes == 0)
    finish_emptying(now, spill.arena, actions);
  make_room(now, actions);
  return actions;
}

// All objects are on disk, except those that were put, requested again, or failed to be written meanwhile.
void StoreTable::finish_emptying(BootTime now, const ArenaKey& key, StoreActions& actions) {
  Arena& arena = arenas_.at(key);
  if (missing_room() <= emptying_ - arena.bytes) return set_phase(arena, key, Arena::Phase::kUsed);
  std::vector<uint64_t> freed;
  const std::vector<ObjectKey> residents(arena.residents.begin(), arena.residents.end());
  for (const ObjectKey& resident : residents) {
    Object& object = objects_.at(resident);
    const auto& held = object.references.held;
    if (!object.disk || std::any_of(held.begin(), held.end(), [](const auto& one) { return one.second.located; }))
      continue;
    freed.push_back(resident.number);
    if (!leave_memory(resident, object, actions)) return;  // The arena was closed with its last object.
  }
  tell_freed(key, freed, actions);
  arena.until = now + limits_.yield_patience;
  set_phase(arena, key, arena.residents.empty() ? Arena::Phase::kEmptied : Arena::Phase::kUsed);
}

void StoreTable::expire_phases(BootTime now) {
  const std::vector<ArenaKey> keys(phases_.begin(), phases_.end());
  for (const ArenaKey& key : keys) {
    Arena& arena = arenas_.at(key);
    if (arena.phase == Arena::Phase::kWriting || arena.until > now) continue;
    // Others may be emptied meanwhile; a late answer still counts.
    arena.silent = arena.phase == Arena::Phase::kAsking;
    set_phase(arena, key, Arena::Phase::kUsed);
  }
}

void StoreTable::pause_spilling(BootTime now, std::string why) {
  paused_until_ = now + limits_.spill_pause;
  spill_trouble_ = std::move(why);
}

// ---- restoring ----

StoreActions StoreTable::on_restored(BootTime now, const ObjectKey& key, uint64_t arena, Result<void> outcome) {
  StoreActions actions;
  now_ = now;
  const ArenaKey place{kOwnWriter, arena};
  const auto found = objects_.find(key);
  if (found == objects_.end() || !found->second.restoring) {
    close_arena(place, actions);
    make_room(now, actions);
    return actions;
  }
  Object& object = found->second;
  object.restoring = false;
  if (!outcome) {
    close_arena(place, actions);
    refuse_asked(object,
                 outcome.error().code == ErrorCode::kObjectLost ? lost(key, outcome.error().message) : outcome.error(),
                 actions);
  } else {
    enter_memory(key, object, place, 0);
    touch(object);
    for (const Asked& one : std::exchange(object.asked, {})) {
      const auto client = clients_.find(one.client);
      if (client == clients_.end()) continue;
      --client->second.waiting;
      if (object.references.held.contains(one.client)) {
        answer(one.client, one.request, object, actions);
      } else {
        refuse(one.client, one.request, lost(key, "this process does not refer to it any more"), actions);
      }
    }
  }
  make_room(now, actions);
  return actions;
}

}  // namespace volador::worker
