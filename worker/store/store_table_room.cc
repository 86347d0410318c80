// StoreTable: room for arenas, its waiting requests, and lists of objects.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "runtime/quantities.h"
#include "runtime/resources.h"
#include "worker/store/store_table.h"

namespace volador::worker {
namespace {

constexpr size_t kHoldersNamed = 3;

}  // namespace

// ---- room ----

void StoreTable::reserve(BootTime now, StoreSession id, Client& client, const protocol::Reserve& message,
                         StoreActions& actions) {
  const Wanted wanted{.serial = next_wanted_++,
                      .client = id,
                      .request = message.request(),
                      .bytes = message.bytes(),
                      .until = now + limits_.room_patience};
  if (wanted.bytes <= 0 || client.waiting >= limits_.waiting_max || client.arenas >= limits_.arenas_max) {
    answer_room(wanted,
                Error{ErrorCode::kInvalidArgument,
                      fmt::format("object store: {} cannot be had with {} and {} open", counted(wanted.bytes, "byte"),
                                  counted(client.arenas, "arena"), counted(client.waiting, "request"))},
                actions);
  } else if (wanted.bytes > limits_.bytes_max) {
    answer_room(wanted,
                Error{ErrorCode::kStoreFull,
                      fmt::format("an object of {} does not fit into the object store of node {}, which holds {} in "
                                  "all; start the worker with a larger --object-store-memory",
                                  format_bytes(wanted.bytes), node_name_, format_bytes(limits_.bytes_max))},
                actions);
  } else {
    ++client.waiting;
    wanted_.push_back(wanted);
    grant(actions);
  }
}

StoreActions StoreTable::reserve_copy(BootTime now, const ObjectKey& key, int64_t bytes) {
  StoreActions actions;
  const Wanted wanted{.serial = next_wanted_++,
                      .bytes = std::max<int64_t>(bytes, 1),
                      .until = now + limits_.room_patience,
                      .copy = key};
  if (bytes > limits_.bytes_max) {  // Waiting cannot help.
    answer_room(wanted, full(bytes), actions);
    return actions;
  }
  wanted_.push_back(wanted);
  grant(actions);
  make_room(now, actions);
  return actions;
}

std::vector<std::pair<ObjectKey, Result<uint64_t>>> StoreTable::take_rooms() { return std::exchange(rooms_, {}); }

void StoreTable::cancel_reserve(StoreSession id, const protocol::CancelReserve& message, StoreActions& actions) {
  const auto found = std::find_if(wanted_.begin(), wanted_.end(), [&](const Wanted& one) {
    return !one.copy && !one.restore && one.client == id && one.request == message.request();
  });
  if (found == wanted_.end()) return;  // Already granted or rejected.
  const Wanted wanted = *found;
  wanted_.erase(found);
  answer_room(wanted, Error{ErrorCode::kCancelled, "not wanted any more"}, actions);
  grant(actions);
}

// First come, first served: a large request cannot starve.
void StoreTable::grant(StoreActions& actions) {
  while (!wanted_.empty()) {
    const Wanted wanted = wanted_.front();
    if (is_obsolete(wanted)) {
      wanted_.pop_front();
    } else if (wanted.copy || wanted.restore) {
      const auto arena = own_arena(wanted.bytes, actions);
      if (!arena) break;
      wanted_.pop_front();
      if (wanted.copy) {
        rooms_.emplace_back(*wanted.copy, *arena);
      } else {
        actions.restore.push_back({*wanted.restore, *arena, *objects_.at(*wanted.restore).disk});
      }
    } else {
      if (!has_room(wanted.bytes, actions)) break;
      wanted_.pop_front();
      used_ += wanted.bytes;
      answer_room(wanted, std::nullopt, actions);
    }
  }
  if (wanted_.empty()) return;
  std::set<StoreSession> told;
  for (const auto& [key, arena] : arenas_) {
    if (key.writer == kOwnWriter || arena.writer_gone || !arena.residents.empty() ||
        !told.insert(writers_.at(key.writer)).second)
      continue;
    protocol::FromStore trim;
    trim.mutable_trim();
    actions.send.push_back({writers_.at(key.writer), std::move(trim), {}});
  }
}

// The object to restore is no longer needed.
bool StoreTable::is_obsolete(const Wanted& wanted) const {
  if (!wanted.restore) return false;
  const auto object = objects_.find(*wanted.restore);
  return object == objects_.end() || !object->second.restoring || !object->second.disk;
}

// Drops spare arenas if needed.
bool StoreTable::has_room(int64_t bytes, StoreActions& actions) {
  while (used_ + bytes > limits_.bytes_max && !spares_.empty()) drop_oldest_spare(actions);
  return used_ + bytes <= limits_.bytes_max;
}

// Returns an arena of this store, counted as used. Nothing: no room.
std::optional<uint64_t> StoreTable::own_arena(int64_t bytes, StoreActions& actions) {
  if (const auto spare = take_spare(bytes)) return spare;
  if (!has_room(bytes, actions)) return std::nullopt;
  used_ += bytes;
  const ArenaKey key{kOwnWriter, next_copy_++};
  arenas_[key].bytes = bytes;
  return key.arena;
}

// ---- warm memory ----

// Warm memory is overwritten only when it has no readers left: clients that knew the place have released their
// references or forgotten the place, and nothing is being written to disk from it.
void StoreTable::keep_spare(const ArenaKey& key, StoreActions& actions) {
  Arena& arena = arenas_.at(key);
  const bool is_worth_it = arena.bytes >= limits_.spare_bytes_min && limits_.spare_patience.count() > 0;
  if (!is_worth_it || !wanted_.empty() || arena.writes > 0) return close_arena(key, actions);
  set_phase(arena, key, Arena::Phase::kUsed);
  spares_.emplace_back(now_ + limits_.spare_patience, key);
  if (spares_.size() > limits_.spares_max) drop_oldest_spare(actions);
}

// Takes the smallest spare arena of at least this size and at most a quarter more.
std::optional<uint64_t> StoreTable::take_spare(int64_t bytes) {
  auto best = spares_.end();
  for (auto spare = spares_.begin(); spare != spares_.end(); ++spare) {
    const int64_t has = arenas_.at(spare->second).bytes;
    if (has < bytes || has - bytes > bytes / 4) continue;
    if (best == spares_.end() || has < arenas_.at(best->second).bytes) best = spare;
  }
  if (best == spares_.end()) return std::nullopt;
  const uint64_t arena = best->second.arena;
  spares_.erase(best);
  return arena;
}

void StoreTable::drop_oldest_spare(StoreActions& actions) {
  const ArenaKey key = spares_.front().second;
  spares_.pop_front();
  remove_arena(key, actions);
}

int64_t StoreTable::spare_bytes() const {
  int64_t bytes = 0;
  for (const auto& [until, key] : spares_) bytes += arenas_.at(key).bytes;
  return bytes;
}

StoreActions StoreTable::drop_spares() {
  StoreActions actions;
  while (!spares_.empty()) drop_oldest_spare(actions);
  return actions;
}

void StoreTable::answer_room(const Wanted& wanted, const std::optional<Error>& error, StoreActions& actions) {
  if (wanted.copy) {  // Rejected; granted copies are handled elsewhere.
    rooms_.emplace_back(*wanted.copy, make_error(*error));
    return;
  }
  if (wanted.restore) {  // Likewise.
    const auto object = objects_.find(*wanted.restore);
    if (object == objects_.end() || !std::exchange(object->second.restoring, false)) return;
    return refuse_asked(object->second, *error, actions);
  }
  if (const auto client = clients_.find(wanted.client); client != clients_.end()) {
    if (client->second.waiting > 0) --client->second.waiting;
    if (!error) client->second.reserved += wanted.bytes;
  }
  protocol::FromStore answer;
  answer.mutable_reserved()->set_request(wanted.request);
  if (error) {
    answer.mutable_reserved()->set_error_code(static_cast<int32_t>(error->code));
    answer.mutable_reserved()->set_error(error->message);
  }
  actions.send.push_back({wanted.client, std::move(answer), {}});
}

std::string StoreTable::writer_name(const ObjectKey& key) const {
  if (key.node != node_) return "node " + short_id(key.node);
  const auto writer = writers_.find(key.writer);
  return writer == writers_.end() ? "a process that has ended" : who(writer->second);
}

Error StoreTable::full(int64_t bytes) const {
  struct Held {
    int64_t arenas = 0;
    std::map<std::string, int64_t> by_site;
  };
  std::map<std::string, Held> by_writer;
  for (const auto& [key, arena] : arenas_) {
    if (key.writer == kOwnWriter && arena.residents.empty()) continue;  // Being fetched.
    by_writer[writer_name(key.writer == kOwnWriter ? *arena.residents.begin() : ObjectKey{node_, key.writer, 0})]
        .arenas += arena.bytes;
  }
  int64_t being_read = 0;
  for (const auto& [key, object] : objects_) {
    if (!object.in_memory) continue;
    by_writer[writer_name(key)].by_site[object.place.empty() ? object.site : object.site + " at " + object.place] +=
        object.bytes;
    const auto& held = object.references.held;
    if (std::any_of(held.begin(), held.end(), [](const auto& one) { return one.second.reading; }))
      being_read += object.bytes;
  }
  std::vector<std::pair<int64_t, std::string>> largest;
  for (const auto& [name, held] : by_writer) {
    std::string text = fmt::format("{} {}", name, format_bytes(held.arenas));
    const auto most = std::max_element(held.by_site.begin(), held.by_site.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != held.by_site.end() && !most->first.empty())
      text += fmt::format(" ({} of it: {})", format_bytes(most->second), most->first);
    largest.emplace_back(held.arenas, std::move(text));
  }
  std::sort(largest.rbegin(), largest.rend());
  std::string names;
  for (size_t i = 0; i < std::min(largest.size(), kHoldersNamed); ++i)
    names += (i == 0 ? "" : ", ") + largest[i].second;
  std::string spilled = "nothing is spilled to disk (--object-spill-limit is 0)";
  if (disk_) {
    spilled = fmt::format("{} of {} are spilled to disk", format_bytes(this->spilled()),
                          format_bytes(limits_.spill_bytes_max));
    if (!spill_trouble_.empty()) spilled += "; " + spill_trouble_;
    if (being_read > 0) spilled += fmt::format("; {} are being read and cannot go", format_bytes(being_read));
  }
  return {ErrorCode::kStoreFull,
          fmt::format("the object store of node {} has {} of {} in use and {} s brought no room for {} more; {}. "
                      "Largest holders: {}. "
                      "Drop references that are not needed (volador memory lists them), or start the worker with a "
                      "larger --object-store-memory or --object-spill-limit",
                      node_name_, format_bytes(used_), format_bytes(limits_.bytes_max),
                      std::chrono::duration_cast<std::chrono::seconds>(limits_.room_patience).count(),
                      format_bytes(bytes), spilled, names.empty() ? "processes that write at this moment" : names)};
}

std::optional<std::string> StoreTable::add_arena(StoreSession id, Client& client, const protocol::AddArena& message) {
  const ArenaKey key{client.writer, message.arena()};
  if (message.arena() == 0 || message.bytes() <= 0 || message.bytes() > client.reserved || arenas_.contains(key)) {
    return fmt::format("arena {} of {} bytes was not reserved", message.arena(), message.bytes());
  }
  client.reserved -= message.bytes();
  ++client.arenas;
  Arena& arena = arenas_[key];
  arena.bytes = message.bytes();
  arena.known_to.insert(id);
  return std::nullopt;
}

std::optional<std::string> StoreTable::drop_arena(Client& client, const protocol::DropArena& message,
                                                  StoreActions& actions) {
  if (message.arena() == 0) {
    if (message.bytes() <= 0 || message.bytes() > client.reserved)
      return fmt::format("{} not reserved", counted(message.bytes(), "byte given back was", "bytes given back were"));
    client.reserved -= message.bytes();
    used_ -= message.bytes();
    grant(actions);
    return std::nullopt;
  }
  const ArenaKey key{client.writer, message.arena()};
  const auto found = arenas_.find(key);
  if (found == arenas_.end() || !found->second.residents.empty())
    return fmt::format("arena {} cannot be dropped: it holds objects or does not exist", message.arena());
  --client.arenas;
  close_arena(key, actions);
  return std::nullopt;
}

void StoreTable::close_arena(const ArenaKey& key, StoreActions& actions) {
  remove_arena(key, actions);
  grant(actions);
}

void StoreTable::remove_arena(const ArenaKey& key, StoreActions& actions) {
  const auto found = arenas_.find(key);
  set_phase(found->second, key, Arena::Phase::kUsed);
  used_ -= found->second.bytes;
  for (const StoreSession client : found->second.known_to) {
    if (!clients_.contains(client)) continue;
    protocol::FromStore gone;
    gone.mutable_gone()->set_writer(key.writer);
    gone.mutable_gone()->set_arena(key.arena);
    actions.send.push_back({client, std::move(gone), {}});
  }
  arenas_.erase(found);
  actions.close.push_back(key);
}

// ---- time ----

std::optional<BootTime> StoreTable::next_tick() const {
  std::optional<BootTime> next;
  const auto at = [&next](BootTime when) { next = next ? std::min(*next, when) : when; };
  if (!wanted_.empty()) at(deadline(wanted_.front()));
  if (!wanted_.empty() && paused_until_) at(*paused_until_);
  if (!lent_.empty()) at(lent_.front().first);
  if (!returning_.empty()) at(returning_.front().first);
  if (!spares_.empty()) at(spares_.front().first);
  for (const ArenaKey& key : phases_) {
    if (const Arena& arena = arenas_.at(key); arena.phase != Arena::Phase::kWriting) at(arena.until);
  }
  return next;
}

StoreActions StoreTable::on_tick(BootTime now) {
  StoreActions actions;
  now_ = now;
  while (!spares_.empty() && spares_.front().first <= now) drop_oldest_spare(actions);
  if (paused_until_ && *paused_until_ <= now) paused_until_.reset();
  while (!wanted_.empty() && deadline(wanted_.front()) <= now) {
    const Wanted expired = wanted_.front();
    wanted_.pop_front();
    answer_room(expired, full(expired.bytes), actions);
  }
  grant(actions);
  expire_phases(now);
  while (!lent_.empty() && lent_.front().first <= now) {
    const ObjectKey key = lent_.front().second;
    lent_.pop_front();
    if (!awaits_claim(key)) continue;
    References& references = objects_.at(key).references;
    if (references.lent_until > now) continue;  // Transferred again.
    references.lent = 0;
    if (is_unused(references)) free_object(key, actions);
  }
  for (; !returning_.empty() && returning_.front().first <= now; returning_.pop_front()) {
    const ObjectKey& key = returning_.front().second;
    --objects_.at(key).references.returning;
    drop_unused(key, actions);
  }
  make_room(now, actions);
  return actions;
}

// ---- queries ----

std::optional<StoreTable::Place> StoreTable::find(const ObjectKey& key) const {
  const auto found = objects_.find(key);
  if (found == objects_.end() || found->second.freed || !found->second.fetched) return std::nullopt;
  const Object& object = found->second;
  Place place{object.arena, object.offset, object.bytes, {}};
  if (!object.in_memory) place.disk = object.disk;
  return place;
}

int64_t StoreTable::references_of(const References& references) {
  int64_t count = std::max<int64_t>(references.lent, 0) + references.returning;
  for (const auto& [client, hold] : references.held) count += hold.count;
  return count;
}

std::vector<StoreTable::Row> StoreTable::rows(size_t rows_max) const {
  std::vector<std::pair<int64_t, const ObjectKey*>> largest;
  largest.reserve(objects_.size());
  for (const auto& [key, object] : objects_) {
    if (!object.named) largest.emplace_back(object.bytes, &key);
  }
  const size_t count = std::min(rows_max, largest.size());
  std::partial_sort(
      largest.begin(), largest.begin() + static_cast<std::ptrdiff_t>(count), largest.end(),
      [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : *a.second < *b.second; });
  std::vector<Row> rows;
  for (size_t i = 0; i < count; ++i) {
    const ObjectKey& key = *largest[i].second;
    const Object& object = objects_.at(key);
    Row& row = rows.emplace_back();
    row = {.key = key,
           .bytes = object.bytes,
           .site = object.site,
           .place = object.place,
           .writer = writer_name(key),
           .holders = {},
           .copy = key.node != node_,
           .in_memory = object.in_memory,
           .spilled = object.disk.has_value(),
           .references = references_of(object.references)};
    for (const auto& [client, hold] : object.references.held) row.holders.push_back(who(client));
    if (object.references.lent > 0) row.holders.emplace_back("an answer under way");
    if (object.references.returning > 0) row.holders.emplace_back("a node that was cut off");
  }
  return rows;
}

std::vector<StoreTable::Group> StoreTable::groups(size_t groups_max) const {
  std::map<std::tuple<std::string, std::string, std::string>, Group> all;
  for (const auto& [key, object] : objects_) {
    if (object.named) continue;  // It is on another node.
    const std::string writer = writer_name(key);
    Group& group = all[{writer, object.place, object.site}];
    group.site = object.site;
    group.place = object.place;
    group.writer = writer;
    ++group.objects;
    group.bytes += object.bytes;
    if (object.in_memory) group.in_memory += object.bytes;
    if (object.disk) group.spilled += object.bytes;
    group.references += references_of(object.references);
  }
  std::vector<Group> groups;
  for (auto& [name, group] : all) groups.push_back(std::move(group));
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.bytes > b.bytes; });
  if (groups.size() > groups_max) groups.resize(groups_max);
  return groups;
}

void StoreTable::check_invariants() const {
  struct Count {
    size_t residents = 0;
    int64_t located = 0, reading = 0;
  };
  std::map<ArenaKey, Count> counted;
  std::unordered_map<ActorId, int64_t> actors;
  std::map<ObjectKey, int64_t> returning;
  for (const auto& [until, key] : returning_) ++returning[key];
  for (const auto& [key, object] : objects_) {
    VOLADOR_CHECK(!object.fetched || !is_unused(object.references), "an object without references is freed");
    VOLADOR_CHECK(!object.fetched || object.freed || object.in_memory || object.disk, "an object lies somewhere");
    VOLADOR_CHECK(!object.named ||
                      (!object.fetched && !object.in_memory && (object.freed || object.references.held.size() == 1) &&
                       object.references.held.contains(kContainedRefs)),
                  "only objects refer to what is only named");
    VOLADOR_CHECK(object.references.returning == (returning.contains(key) ? returning.extract(key).mapped() : 0),
                  "nodes that may come back are waited for");
    if (object.in_memory) {
      VOLADOR_CHECK(arenas_.contains(object.arena) && arenas_.at(object.arena).residents.contains(key),
                    "an object lies in an arena that knows it");
      ++counted[object.arena].residents;
    }
    if (object.contents) {
      for (const ActorId& actor : object.contents->actors) ++actors[actor];
    }
    for (const auto& [client, hold] : object.references.held) {
      VOLADOR_CHECK(hold.count > 0 && clients_.contains(client), "references belong to connected clients");
      VOLADOR_CHECK(clients_.at(client).refers.contains(key), "a client knows what it refers to");
      VOLADOR_CHECK(!hold.located || object.in_memory, "only what is in memory can be read");
      if (hold.located) ++counted[object.arena].located;
      if (hold.reading) ++counted[object.arena].reading;
    }
  }
  VOLADOR_CHECK(returning.empty(), "an object for which a node may come back is kept");
  VOLADOR_CHECK(let_go_.empty() && actors == actors_, "handles inside objects are counted");
  int64_t bytes = 0;
  int64_t emptying = 0;
  for (const auto& [key, arena] : arenas_) {
    bytes += arena.bytes;
    const Count& count = counted[key];
    VOLADOR_CHECK(arena.residents.size() == count.residents, "an arena counts its objects");
    VOLADOR_CHECK(arena.located == count.located && arena.reading == count.reading, "an arena counts its readers");
    VOLADOR_CHECK(!arena.writer_gone || !arena.residents.empty(), "an arena without writer and objects is closed");
    VOLADOR_CHECK(phases_.contains(key) == (arena.phase != Arena::Phase::kUsed), "what is being emptied is known");
    if (arena.phase != Arena::Phase::kUsed) emptying += arena.bytes;
  }
  VOLADOR_CHECK(emptying == emptying_, "what is being emptied adds up");
  for (const auto& [until, key] : spares_) {
    VOLADOR_CHECK(key.writer == kOwnWriter && arenas_.contains(key), "a spare arena is one of this store's own");
    const Arena& arena = arenas_.at(key);
    VOLADOR_CHECK(
        arena.residents.empty() && arena.located == 0 && arena.writes == 0 && arena.phase == Arena::Phase::kUsed,
        "nothing lies in a spare arena");
  }
  VOLADOR_CHECK(spares_.empty() || wanted_.empty(), "spare arenas make way for who waits");
  for (const auto& [id, client] : clients_) bytes += client.reserved;
  VOLADOR_CHECK(bytes == used_, fmt::format("arenas and reservations add up: {} and {}", bytes, used_));
  VOLADOR_CHECK(used_ <= limits_.bytes_max, "the limit holds");
  if (disk_) disk_->check_invariants();
}

}  // namespace volador::worker
