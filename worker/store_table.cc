#include "worker/store_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/resources.h"
#include "runtime/store/object_name.h"

namespace volador::worker {
namespace {

// What the copies of other nodes' objects are accounted to.
constexpr uint64_t kOwnWriter = 0;

}  // namespace

std::string StoreTable::who(StoreSession client) const {
  const auto found = clients_.find(client);
  return found == clients_.end() || found->second.who.empty() ? "a process" : found->second.who;
}

void StoreTable::on_connected(StoreSession client, uint64_t writer) {
  Client& made = clients_[client];
  made.writer = writer;
  if (writer != kOwnWriter) writers_.emplace(writer, client);
}

StoreActions StoreTable::on_message(BootTime now, StoreSession id, const protocol::ToStore& message) {
  StoreActions actions;
  const auto found = clients_.find(id);
  if (found == clients_.end()) return actions;
  Client& client = found->second;
  std::optional<std::string> wrong;
  if (!client.greeted && message.kind_case() != protocol::ToStore::kHello) {
    wrong = "its first message was no hello";
  } else {
    switch (message.kind_case()) {
      case protocol::ToStore::kHello: hello(id, client, message.hello(), actions); break;
      case protocol::ToStore::kReserve: reserve(now, id, client, message.reserve(), actions); break;
      case protocol::ToStore::kAddArena: wrong = add_arena(id, client, message.add_arena()); break;
      case protocol::ToStore::kDropArena: wrong = drop_arena(client, message.drop_arena(), actions); break;
      case protocol::ToStore::kPut: wrong = put(now, id, client, message.put(), actions); break;
      case protocol::ToStore::kAcquire: acquire(now, id, message.acquire(), actions); break;
      case protocol::ToStore::kRelease: wrong = release(id, object_key_of(message.release().name()), actions); break;
      case protocol::ToStore::kLend: lend(now, object_key_of(message.lend().name()), actions); break;
      default: break;  // Of a newer version.
    }
  }
  if (wrong) actions.cut.push_back({id, fmt::format("{}: {}", who(id), *wrong)});
  return actions;
}

void StoreTable::hello(StoreSession id, Client& client, const protocol::StoreHello& message, StoreActions& actions) {
  if (std::exchange(client.greeted, true)) return;
  client.who = message.who().substr(0, limits_.site_bytes_max);
  protocol::FromStore answer;
  answer.mutable_welcome()->set_node_id(raw(node_));
  answer.mutable_welcome()->set_writer(client.writer);
  answer.mutable_welcome()->set_address(address_);
  actions.send.push_back({id, std::move(answer), {}});
}

// ---- room ----

void StoreTable::reserve(BootTime now, StoreSession id, Client& client, const protocol::Reserve& message, StoreActions& actions) {
  const Wanted wanted{.client = id, .request = message.request(), .bytes = message.bytes(), .until = now + limits_.room_patience, .copy = {}};
  if (wanted.bytes <= 0 || client.waiting >= limits_.waiting_max || client.arenas >= limits_.arenas_max) {
    answer_room(wanted, Error{ErrorCode::kInvalidArgument, fmt::format("object store: {} bytes cannot be had with {} arenas and {} requests open", wanted.bytes, client.arenas, client.waiting)}, actions);
  } else if (wanted.bytes > limits_.bytes_max) {
    answer_room(wanted, Error{ErrorCode::kStoreFull, fmt::format("an object of {} does not fit into the object store of node {}, which holds {} in all; start the worker with a larger --object-store-memory",
                                                                 format_bytes(wanted.bytes), node_name_, format_bytes(limits_.bytes_max))}, actions);
  } else {
    ++client.waiting;
    wanted_.push_back(wanted);
    grant(actions);
  }
}

StoreActions StoreTable::reserve_copy(BootTime now, const ObjectKey& key, int64_t bytes) {
  StoreActions actions;
  const Wanted wanted{.client = {}, .request = 0, .bytes = std::max<int64_t>(bytes, 1), .until = now + limits_.room_patience, .copy = key};
  if (bytes > limits_.bytes_max) {  // No patience helps.
    answer_room(wanted, full(bytes), actions);
    return actions;
  }
  wanted_.push_back(wanted);
  grant(actions);
  return actions;
}

std::vector<std::pair<ObjectKey, Result<uint64_t>>> StoreTable::take_rooms() { return std::exchange(rooms_, {}); }

// First come, first served: a large request is not overtaken for ever.
void StoreTable::grant(StoreActions& actions) {
  while (!wanted_.empty() && used_ + wanted_.front().bytes <= limits_.bytes_max) {
    const Wanted wanted = wanted_.front();
    wanted_.pop_front();
    used_ += wanted.bytes;
    answer_room(wanted, std::nullopt, actions);
  }
  if (wanted_.empty()) return;
  for (const auto& [id, client] : clients_) {
    if (client.arenas == 0) continue;
    protocol::FromStore trim;
    trim.mutable_trim();
    actions.send.push_back({id, std::move(trim), {}});
  }
}

void StoreTable::answer_room(const Wanted& wanted, const std::optional<Error>& error, StoreActions& actions) {
  if (wanted.copy) {
    if (error) {
      rooms_.emplace_back(*wanted.copy, make_error(*error));
      return;
    }
    const ArenaKey key{kOwnWriter, next_copy_++};
    arenas_[key].bytes = wanted.bytes;
    rooms_.emplace_back(*wanted.copy, key.arena);
    return;
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

Error StoreTable::full(int64_t bytes) const {
  std::map<std::string, int64_t> by_holder;
  for (const auto& [key, arena] : arenas_) {
    const auto writer = writers_.find(key.writer);
    by_holder[key.writer == kOwnWriter ? "copies of other nodes' objects" : writer == writers_.end() ? "processes that have ended" : who(writer->second)] += arena.bytes;
  }
  std::vector<std::pair<int64_t, std::string>> largest;
  for (const auto& [name, held] : by_holder) largest.emplace_back(held, name);
  std::sort(largest.rbegin(), largest.rend());
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(largest.size(), 3); ++i) names += fmt::format("{}{} {}", i == 0 ? "" : ", ", largest[i].second, format_bytes(largest[i].first));
  return {ErrorCode::kStoreFull, fmt::format("the object store of node {} has {} of {} in use and {} s brought no room for {} more. Largest holders: {}. "
                                             "Drop references that are not needed, or start the worker with a larger --object-store-memory",
                                             node_name_, format_bytes(used_), format_bytes(limits_.bytes_max),
                                             std::chrono::duration_cast<std::chrono::seconds>(limits_.room_patience).count(), format_bytes(bytes), names)};
}

std::optional<std::string> StoreTable::add_arena(StoreSession id, Client& client, const protocol::AddArena& message) {
  const ArenaKey key{client.writer, message.arena()};
  if (message.arena() == 0 || message.bytes() <= 0 || message.bytes() > client.reserved || arenas_.contains(key)) {
    return fmt::format("arena {} of {} bytes was not reserved", message.arena(), message.bytes());
  }
  client.reserved -= message.bytes();
  ++client.arenas;
  ArenaState& arena = arenas_[key];
  arena.bytes = message.bytes();
  arena.known_to.insert(id);
  return std::nullopt;
}

std::optional<std::string> StoreTable::drop_arena(Client& client, const protocol::DropArena& message, StoreActions& actions) {
  if (message.arena() == 0) {
    if (message.bytes() <= 0 || message.bytes() > client.reserved) return fmt::format("{} bytes given back were not reserved", message.bytes());
    client.reserved -= message.bytes();
    used_ -= message.bytes();
    grant(actions);
    return std::nullopt;
  }
  const ArenaKey key{client.writer, message.arena()};
  const auto found = arenas_.find(key);
  if (found == arenas_.end() || found->second.objects > 0) return fmt::format("arena {} cannot be dropped: it holds objects or does not exist", message.arena());
  --client.arenas;
  close_arena(key, actions);
  return std::nullopt;
}

void StoreTable::close_arena(const ArenaKey& key, StoreActions& actions) {
  const auto found = arenas_.find(key);
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
  grant(actions);
}

// ---- objects ----

std::optional<std::string> StoreTable::put(BootTime now, StoreSession id, Client& client, const protocol::PutObject& message, StoreActions& actions) {
  const ArenaKey arena{client.writer, message.arena()};
  const auto found = arenas_.find(arena);
  if (found == arenas_.end() || message.number() <= client.last_number || message.offset() < 0 || message.bytes() <= 0 ||
      message.bytes() > found->second.bytes || message.offset() > found->second.bytes - message.bytes()) {
    return fmt::format("object {} does not lie in arena {}", message.number(), message.arena());
  }
  client.last_number = message.number();
  const ObjectKey key{node_, client.writer, message.number()};
  ++found->second.objects;
  Object& object = objects_[key];
  object.arena = arena;
  object.offset = message.offset();
  object.bytes = message.bytes();
  object.site = message.site().substr(0, limits_.site_bytes_max);
  object.references.held[id] = 1;
  client.refers.insert(key);
  if (auto asked = expected_.extract(key); !asked.empty()) {
    for (const Asked& one : asked.mapped()) {
      const auto asker = clients_.find(one.client);
      if (asker == clients_.end()) continue;
      --asker->second.waiting;
      ++object.references.held[one.client];
      asker->second.refers.insert(key);
      if (one.claim) claim(now, key, object.references);
      locate(one.client, one.request, object.arena, object.offset, object.bytes, actions);
    }
  }
  return std::nullopt;
}

Error StoreTable::lost(const ObjectKey& key, const std::string& why) const {
  return {ErrorCode::kObjectLost, fmt::format("object {} of node {} is lost: {}; put it again", to_string(key), key.node == node_ ? node_name_ : short_id(key.node), why)};
}

void StoreTable::refuse(StoreSession to, uint64_t request, const Error& error, StoreActions& actions) {
  protocol::FromStore answer;
  answer.mutable_located()->set_request(request);
  answer.mutable_located()->set_error_code(static_cast<int32_t>(error.code));
  answer.mutable_located()->set_error(error.message);
  actions.send.push_back({to, std::move(answer), {}});
}

void StoreTable::locate(StoreSession to, uint64_t request, const ArenaKey& arena, int64_t offset, int64_t bytes, StoreActions& actions) {
  ArenaState& state = arenas_.at(arena);
  protocol::FromStore answer;
  protocol::Located& located = *answer.mutable_located();
  located.set_request(request);
  located.set_writer(arena.writer);
  located.set_arena(arena.arena);
  located.set_arena_bytes(state.bytes);
  located.set_offset(offset);
  located.set_bytes(bytes);
  const bool first = state.known_to.insert(to).second;
  actions.send.push_back({to, std::move(answer), first ? std::optional(arena) : std::nullopt});
}

void StoreTable::acquire(BootTime now, StoreSession id, const protocol::AcquireObject& message, StoreActions& actions) {
  const ObjectKey key = object_key_of(message.name());
  if (key.node != node_) return acquire_copy(now, id, key, message, actions);
  const auto found = objects_.find(key);
  if (found == objects_.end()) {
    const auto writer = writers_.find(key.writer);
    if (writer == writers_.end()) return refuse(id, message.request(), lost(key, "the process that put it has ended and nobody referred to it"), actions);
    if (key.number <= clients_.at(writer->second).last_number) return refuse(id, message.request(), lost(key, "nobody referred to it any more"), actions);
    Client& client = clients_.at(id);
    if (client.waiting >= limits_.waiting_max) {
      return refuse(id, message.request(), {ErrorCode::kUnavailable, fmt::format("object store: {} requests of this process wait already", client.waiting)}, actions);
    }
    ++client.waiting;  // Its writer's message is on the way: another connection was read first.
    expected_[key].push_back({id, message.request(), message.claim()});
    return;
  }
  Object& object = found->second;
  ++object.references.held[id];
  clients_.at(id).refers.insert(key);
  if (message.claim()) claim(now, key, object.references);
  locate(id, message.request(), object.arena, object.offset, object.bytes, actions);
}

void StoreTable::acquire_copy(BootTime, StoreSession id, const ObjectKey& key, const protocol::AcquireObject& message, StoreActions& actions) {
  const auto [found, is_new] = copies_.try_emplace(key);
  Copy& copy = found->second;
  ++copy.references.held[id];
  clients_.at(id).refers.insert(key);
  if (is_new) {
    copy.address = message.name().address();
    actions.home.push_back({key, copy.address, StoreActions::Home::What::kFetch, message.claim()});
  } else if (message.claim()) {
    actions.home.push_back({key, copy.address, StoreActions::Home::What::kClaim, true});
  }
  if (copy.here) return locate(id, message.request(), {kOwnWriter, copy.arena}, 0, copy.bytes, actions);
  ++clients_.at(id).waiting;
  copy.asked.push_back({id, message.request(), false});
}

void StoreTable::set_copy(const ObjectKey& key, uint64_t arena, int64_t bytes) {
  const auto found = copies_.find(key);
  VOLADOR_CHECK(found != copies_.end(), "a copy that is fetched is known");
  found->second.arena = arena;
  found->second.bytes = bytes;
}

StoreActions StoreTable::on_fetched(BootTime, const ObjectKey& key, Result<void> outcome) {
  StoreActions actions;
  const auto found = copies_.find(key);
  if (found == copies_.end()) return actions;
  Copy& copy = found->second;
  const auto asked = std::exchange(copy.asked, {});
  for (const Asked& one : asked) {
    if (const auto client = clients_.find(one.client); client != clients_.end()) --client->second.waiting;
  }
  if (outcome) {
    copy.here = true;
    for (const Asked& one : asked) {
      if (clients_.contains(one.client)) locate(one.client, one.request, {kOwnWriter, copy.arena}, 0, copy.bytes, actions);
    }
    if (is_unused(copy.references)) drop_copy(key, actions);
    return actions;
  }
  for (const Asked& one : asked) {
    if (clients_.contains(one.client)) refuse(one.client, one.request, outcome.error(), actions);
  }
  for (const auto& [client, count] : copy.references.held) {
    if (const auto holder = clients_.find(client); holder != clients_.end()) holder->second.refers.erase(key);
  }
  if (copy.arena != 0) close_arena({kOwnWriter, copy.arena}, actions);
  copies_.erase(found);
  return actions;
}

std::optional<std::string> StoreTable::release(StoreSession id, const ObjectKey& key, StoreActions& actions) {
  References* references = nullptr;
  if (const auto object = objects_.find(key); object != objects_.end()) references = &object->second.references;
  if (const auto copy = copies_.find(key); copy != copies_.end()) references = &copy->second.references;
  if (references == nullptr) return std::nullopt;  // It was refused or lost.
  const auto held = references->held.find(id);
  if (held == references->held.end()) return fmt::format("object {} was given back more often than taken", to_string(key));
  if (--held->second == 0) {
    references->held.erase(held);
    clients_.at(id).refers.erase(key);
  }
  if (!is_unused(*references)) return std::nullopt;
  if (key.node == node_) {
    free_object(key, actions);
  } else {
    drop_copy(key, actions);
  }
  return std::nullopt;
}

// Where the lending has not been heard of yet the count is below zero until it is, or for as long as a lending lasts.
void StoreTable::claim(BootTime now, const ObjectKey& key, References& references) {
  if (--references.lent < 0) await_claim(now, key, references);
  forget_settled();
}

void StoreTable::await_claim(BootTime now, const ObjectKey& key, References& references) {
  references.lent_until = now + limits_.lend_patience;
  lent_.emplace_back(references.lent_until, key);
}

bool StoreTable::awaits_claim(const ObjectKey& key) const {
  const auto object = objects_.find(key);
  return object != objects_.end() && object->second.references.lent != 0;
}

// Most are claimed within moments, so that few stand here at any time.
void StoreTable::forget_settled() {
  while (!lent_.empty() && !awaits_claim(lent_.front().second)) lent_.pop_front();
}

void StoreTable::lend(BootTime now, const ObjectKey& key, StoreActions& actions) {
  if (const auto found = objects_.find(key); found != objects_.end()) {
    References& references = found->second.references;
    ++references.lent;
    await_claim(now, key, references);
  } else if (const auto copy = copies_.find(key); copy != copies_.end()) {
    actions.home.push_back({key, copy->second.address, StoreActions::Home::What::kLend, false});
  }
}

void StoreTable::free_object(const ObjectKey& key, StoreActions& actions) {
  const auto found = objects_.find(key);
  const ArenaKey arena = found->second.arena;
  objects_.erase(found);
  forget_settled();
  ArenaState& state = arenas_.at(arena);
  --state.objects;
  if (state.writer_gone) {
    if (state.objects == 0) close_arena(arena, actions);
    return;
  }
  protocol::FromStore freed;
  freed.mutable_freed()->add_numbers(key.number);
  actions.send.push_back({writers_.at(key.writer), std::move(freed), {}});
}

// One that is still on its way goes when it has come.
void StoreTable::drop_copy(const ObjectKey& key, StoreActions& actions) {
  const auto found = copies_.find(key);
  if (!found->second.here) return;
  actions.home.push_back({key, found->second.address, StoreActions::Home::What::kRelease, false});
  const uint64_t arena = found->second.arena;
  copies_.erase(found);
  close_arena({kOwnWriter, arena}, actions);
}

StoreActions StoreTable::on_gone(BootTime, StoreSession id) {
  StoreActions actions;
  const auto found = clients_.find(id);
  if (found == clients_.end()) return actions;
  const uint64_t writer = found->second.writer;
  const auto refers = found->second.refers;
  used_ -= found->second.reserved;
  for (auto& [key, arena] : arenas_) arena.known_to.erase(id);
  std::erase_if(wanted_, [&](const Wanted& wanted) { return !wanted.copy && wanted.client == id; });
  for (const ObjectKey& key : refers) {
    const auto object = objects_.find(key);
    References& references = object != objects_.end() ? object->second.references : copies_.at(key).references;
    references.held.erase(id);
    if (!is_unused(references)) continue;
    if (key.node == node_) {
      free_object(key, actions);
    } else {
      drop_copy(key, actions);
    }
  }
  if (writer != kOwnWriter) writers_.erase(writer);
  clients_.erase(found);
  std::erase_if(actions.send, [id](const StoreActions::Send& send) { return send.to == id; });
  // What it had announced and not put will not come.
  for (auto one = expected_.begin(); one != expected_.end();) {
    std::erase_if(one->second, [id](const Asked& asked) { return asked.client == id; });
    if (writer != kOwnWriter && one->first.writer == writer) {
      for (const Asked& asked : one->second) {
        --clients_.at(asked.client).waiting;
        refuse(asked.client, asked.request, lost(one->first, "the process that put it has ended"), actions);
      }
      one->second.clear();
    }
    one = one->second.empty() ? expected_.erase(one) : std::next(one);
  }
  if (writer == kOwnWriter) return actions;
  std::vector<ArenaKey> empty;
  for (auto arena = arenas_.lower_bound({writer, 0}); arena != arenas_.end() && arena->first.writer == writer; ++arena) {
    arena->second.writer_gone = true;
    if (arena->second.objects == 0) empty.push_back(arena->first);
  }
  for (const ArenaKey& key : empty) close_arena(key, actions);
  grant(actions);
  return actions;
}

// ---- time ----

std::optional<BootTime> StoreTable::next_tick() const {
  if (wanted_.empty()) return lent_.empty() ? std::nullopt : std::optional(lent_.front().first);
  return lent_.empty() ? wanted_.front().until : std::min(wanted_.front().until, lent_.front().first);
}

StoreActions StoreTable::on_tick(BootTime now) {
  StoreActions actions;
  while (!wanted_.empty() && wanted_.front().until <= now) {
    const Wanted expired = wanted_.front();
    wanted_.pop_front();
    answer_room(expired, full(expired.bytes), actions);
  }
  grant(actions);
  while (!lent_.empty() && lent_.front().first <= now) {
    const ObjectKey key = lent_.front().second;
    lent_.pop_front();
    if (!awaits_claim(key)) continue;
    References& references = objects_.at(key).references;
    if (references.lent_until > now) continue;  // It was lent again.
    references.lent = 0;
    if (is_unused(references)) free_object(key, actions);
  }
  return actions;
}

// ---- looking ----

std::optional<StoreTable::Place> StoreTable::find(const ObjectKey& key) const {
  const auto found = objects_.find(key);
  if (found == objects_.end()) return std::nullopt;
  return Place{found->second.arena, found->second.offset, found->second.bytes};
}

std::vector<StoreTable::Row> StoreTable::rows(size_t rows_max) const {
  std::vector<Row> all;
  const auto holders = [&](const References& references) {
    std::vector<std::string> names;
    for (const auto& [client, count] : references.held) names.push_back(who(client));
    if (references.lent > 0) names.emplace_back("an answer under way");
    return names;
  };
  for (const auto& [key, object] : objects_) {
    const auto writer = writers_.find(key.writer);
    all.push_back({key, object.bytes, object.site, writer == writers_.end() ? "a process that has ended" : who(writer->second), holders(object.references), false});
  }
  for (const auto& [key, copy] : copies_) all.push_back({key, copy.bytes, "copy", "node " + short_id(key.node), holders(copy.references), true});
  std::sort(all.begin(), all.end(), [](const Row& a, const Row& b) { return a.bytes != b.bytes ? a.bytes > b.bytes : a.key < b.key; });
  if (all.size() > rows_max) all.resize(rows_max);
  return all;
}

void StoreTable::check_invariants() const {
  int64_t bytes = 0;
  std::map<ArenaKey, size_t> objects;
  for (const auto& [key, object] : objects_) {
    ++objects[object.arena];
    VOLADOR_CHECK(arenas_.contains(object.arena), "an object lies in an arena");
    VOLADOR_CHECK(!is_unused(object.references), "an object without references is freed");
    for (const auto& [client, count] : object.references.held) {
      VOLADOR_CHECK(count > 0 && clients_.contains(client), "references belong to connected clients");
      VOLADOR_CHECK(clients_.at(client).refers.contains(key), "a client knows what it refers to");
    }
  }
  for (const auto& [key, arena] : arenas_) {
    bytes += arena.bytes;
    if (key.writer != kOwnWriter) VOLADOR_CHECK(arena.objects == objects[key], "an arena counts its objects");
    VOLADOR_CHECK(!arena.writer_gone || arena.objects > 0, "an arena without writer and objects is closed");
  }
  for (const auto& [id, client] : clients_) bytes += client.reserved;
  VOLADOR_CHECK(bytes == used_, fmt::format("arenas and reservations add up: {} and {}", bytes, used_));
  VOLADOR_CHECK(used_ <= limits_.bytes_max, "the limit holds");
}

}  // namespace volador::worker
