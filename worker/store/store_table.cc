#include "worker/store/store_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/quantities.h"
#include "runtime/resources.h"
#include "runtime/store/object_name.h"

namespace volador::worker {
namespace {

constexpr int64_t kArenasAStore = 16;  // Per process with small objects: room is released by whole arenas.
constexpr int64_t kArenaBytesMin = int64_t{256} << 10;
constexpr int64_t kArenaBytesMax = int64_t{64} << 20;

}  // namespace

StoreTable::StoreTable(NodeId node, std::string node_name, StoreLimits limits)
    : node_(node), node_name_(std::move(node_name)), limits_(limits) {
  if (limits_.spill_bytes_max > 0) disk_.emplace(static_cast<size_t>(limits_.spill_bytes_max));
  clients_[kContainedRefs].who = "other objects";
}

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
  now_ = now;
  const auto found = clients_.find(id);
  if (found == clients_.end()) return actions;
  Client& client = found->second;
  std::optional<std::string> wrong;
  if (!client.greeted && message.kind_case() != protocol::ToStore::kHello) {
    wrong = "its first message was no hello";
  } else {
    switch (message.kind_case()) {
      case protocol::ToStore::kHello:
        hello(id, client, message.hello(), actions);
        break;
      case protocol::ToStore::kReserve:
        reserve(now, id, client, message.reserve(), actions);
        break;
      case protocol::ToStore::kAddArena:
        wrong = add_arena(id, client, message.add_arena());
        break;
      case protocol::ToStore::kDropArena:
        wrong = drop_arena(client, message.drop_arena(), actions);
        break;
      case protocol::ToStore::kPut:
        wrong = put(now, id, client, message.put(), actions);
        break;
      case protocol::ToStore::kContents:
        wrong = contain(id, client, message.contents(), actions);
        break;
      case protocol::ToStore::kAcquire:
        acquire(now, id, message.acquire(), actions);
        break;
      case protocol::ToStore::kRelease:
        wrong = release(id, object_key_of(message.release().name()), actions);
        break;
      case protocol::ToStore::kCancelReserve:
        cancel_reserve(id, message.cancel_reserve(), actions);
        break;
      case protocol::ToStore::kLocate:
        locate(now, id, client, message.locate(), actions);
        break;
      case protocol::ToStore::kYield:
        yield(id, message.yield());
        break;
      case protocol::ToStore::kFree:
        free(id, object_key_of(message.free().name()), actions);
        break;
      case protocol::ToStore::kLend:
        lend(now, object_key_of(message.lend().name()), actions);
        break;
      default:
        break;  // Message of a newer version.
    }
  }
  if (wrong) actions.cut.push_back({id, fmt::format("{}: {}", who(id), *wrong)});
  make_room(now, actions);
  return actions;
}

void StoreTable::hello(StoreSession id, Client& client, const protocol::StoreHello& message, StoreActions& actions) {
  if (std::exchange(client.greeted, true)) return;
  client.who = message.who().substr(0, limits_.site_bytes_max);
  client.address = message.address().substr(0, limits_.site_bytes_max);
  protocol::FromStore answer;
  answer.mutable_welcome()->set_node_id(raw(node_));
  answer.mutable_welcome()->set_writer(client.writer);
  answer.mutable_welcome()->set_address(address_);
  answer.mutable_welcome()->set_arena_bytes_max(
      std::clamp(limits_.bytes_max / kArenasAStore, kArenaBytesMin, kArenaBytesMax));
  actions.send.push_back({id, std::move(answer), {}});
}

// ---- objects ----

std::optional<std::string> StoreTable::put(BootTime now, StoreSession id, Client& client,
                                           const protocol::PutObject& message, StoreActions& actions) {
  const ArenaKey arena{client.writer, message.arena()};
  const auto found = arenas_.find(arena);
  if (found == arenas_.end() || message.number() <= client.last_number || message.offset() < 0 ||
      message.bytes() <= 0 || message.bytes() > found->second.bytes ||
      message.offset() > found->second.bytes - message.bytes()) {
    return fmt::format("object {} does not lie in arena {}", message.number(), message.arena());
  }
  client.last_number = message.number();
  const ObjectKey key{node_, client.writer, message.number()};
  Object& object = objects_[key];
  object.bytes = message.bytes();
  object.site = message.site().substr(0, limits_.site_bytes_max);
  object.place = message.place().substr(0, limits_.site_bytes_max);
  object.naming = message.contents();
  enter_memory(key, object, arena, message.offset());
  touch(object);
  Hold& own = object.references.held[id];
  own.count = 1;
  set_located(object, own, true);
  client.refers.insert(key);
  if (auto asked = expected_.extract(key); !asked.empty()) {
    for (const Asked& one : asked.mapped()) {
      const auto asker = clients_.find(one.client);
      if (asker == clients_.end()) continue;
      --asker->second.waiting;
      ++object.references.held[one.client].count;
      asker->second.refers.insert(key);
      if (one.claim) claim(now, key, object.references);
      answer(one.client, one.request, object, actions);
    }
  }
  return std::nullopt;
}

Error StoreTable::lost(const ObjectKey& key, const std::string& why) const {
  return {ErrorCode::kObjectLost, fmt::format("object {} of node {} is lost: {}; put it again", to_string(key),
                                              key.node == node_ ? node_name_ : short_id(key.node), why)};
}

void StoreTable::refuse(StoreSession to, uint64_t request, const Error& error, StoreActions& actions) {
  if (to == kContainedRefs) return;
  protocol::FromStore answer;
  answer.mutable_located()->set_request(request);
  answer.mutable_located()->set_error_code(static_cast<int32_t>(error.code));
  answer.mutable_located()->set_error(error.message);
  actions.send.push_back({to, std::move(answer), {}});
}

Error StoreTable::gone_by_free(const ObjectKey& key) const {
  return lost(key, "volador::free gave it up for all who refer to it");
}

void StoreTable::refuse_asked(Object& object, const Error& error, StoreActions& actions) {
  for (const Asked& one : std::exchange(object.asked, {})) {
    const auto client = clients_.find(one.client);
    if (client == clients_.end()) continue;
    --client->second.waiting;
    refuse(one.client, one.request, error, actions);
  }
}

void StoreTable::answer(StoreSession to, uint64_t request, Object& object, StoreActions& actions) {
  if (to == kContainedRefs) return;
  Client& client = clients_.at(to);
  const bool is_peer = client.writer == kOwnWriter;
  if (is_peer && object.naming) {
    ++client.waiting;
    object.asked.push_back({to, request, false});
    return;
  }
  protocol::FromStore answer;
  protocol::Located& located = *answer.mutable_located();
  located.set_request(request);
  located.set_bytes(object.bytes);
  std::optional<ArenaKey> attach;
  if (is_peer) {
    // Another node's store: it reads by name.
    if (const auto source = choose_source(object, to)) located.add_sources(*source);
    report_contained_refs(object, located);
  } else if (!object.in_memory) {
    located.set_away(true);
  } else {
    Arena& arena = arenas_.at(object.arena);
    located.set_writer(object.arena.writer);
    located.set_arena(object.arena.arena);
    located.set_arena_bytes(arena.bytes);
    located.set_offset(object.offset);
    if (arena.known_to.insert(to).second) attach = object.arena;
    Hold& hold = object.references.held.at(to);
    set_located(object, hold, true);
    hold.asked = 0;
    touch(object);
  }
  actions.send.push_back({to, std::move(answer), attach});
}

// Nothing: read here. Also for a repeated request, since its source may have failed.
std::optional<std::string> StoreTable::choose_source(Object& object, StoreSession to) {
  if (object.bytes < kTreeBytesMin) return std::nullopt;
  auto& pullers = object.pullers;
  if (std::any_of(pullers.begin(), pullers.end(), [to](const auto& one) { return one.peer == to; }))
    return std::nullopt;
  std::optional<std::string> source;
  if (object.readers < kTreeWidth) {
    ++object.readers;
  } else {
    const auto free = std::find_if(pullers.begin(), pullers.end(), [&](const auto& one) {
      return one.readers < kTreeWidth && !clients_.at(one.peer).address.empty();
    });
    if (free != pullers.end()) {
      ++free->readers;
      source = clients_.at(free->peer).address;
    }
  }
  pullers.push_back({to, 0});
  return source;
}

void StoreTable::acquire(BootTime now, StoreSession id, const protocol::AcquireObject& message, StoreActions& actions) {
  const ObjectKey key = object_key_of(message.name());
  if (key.node != node_) return acquire_copy(id, key, message, actions);
  const auto found = objects_.find(key);
  if (found == objects_.end()) {
    const auto writer = writers_.find(key.writer);
    if (writer == writers_.end())
      return refuse(id, message.request(), lost(key, "the process that put it has ended and nobody referred to it"),
                    actions);
    if (key.number <= clients_.at(writer->second).last_number)
      return refuse(id, message.request(), lost(key, "nobody referred to it any more"), actions);
    Client& client = clients_.at(id);
    if (client.waiting >= limits_.waiting_max) {
      return refuse(id, message.request(),
                    {ErrorCode::kUnavailable,
                     fmt::format("object store: {} already", counted(client.waiting, "request of this process waits",
                                                                     "requests of this process wait"))},
                    actions);
    }
    ++client.waiting;  // Its writer's message is on the way: another connection was read first.
    expected_[key].push_back({id, message.request(), message.claim()});
    return;
  }
  Object& object = found->second;
  ++object.references.held[id].count;
  clients_.at(id).refers.insert(key);
  if (message.claim()) claim(now, key, object.references);
  if (object.freed) return refuse(id, message.request(), gone_by_free(key), actions);
  answer(id, message.request(), object, actions);
}

void StoreTable::acquire_copy(StoreSession id, const ObjectKey& key, const protocol::AcquireObject& message,
                              StoreActions& actions) {
  const auto [found, is_new] = objects_.try_emplace(key);
  Object& copy = found->second;
  ++copy.references.held[id].count;
  clients_.at(id).refers.insert(key);
  if (is_new) {
    copy.fetched = false;
    copy.site = "copy";
    copy.address = message.name().address();
  }
  if (is_new || (copy.named && !copy.freed)) {
    copy.named = false;
    actions.home.push_back({key, copy.address, StoreActions::Home::What::kFetch, message.claim()});
  } else if (message.claim()) {
    actions.home.push_back({key, copy.address, StoreActions::Home::What::kClaim, true});
  }
  if (copy.freed) return refuse(id, message.request(), gone_by_free(key), actions);
  if (copy.fetched) return answer(id, message.request(), copy, actions);
  ++clients_.at(id).waiting;
  copy.asked.push_back({id, message.request(), false});
}

void StoreTable::set_copy(const ObjectKey& key, uint64_t arena, int64_t bytes) {
  const auto found = objects_.find(key);
  VOLADOR_CHECK(found != objects_.end(), "a copy that is fetched is known");
  found->second.arena = {kOwnWriter, arena};
  found->second.bytes = bytes;
}

StoreActions StoreTable::on_fetched(BootTime now, const ObjectKey& key, Result<void> outcome) {
  StoreActions actions;
  now_ = now;
  const auto found = objects_.find(key);
  if (found == objects_.end() || found->second.fetched) return actions;
  Object& copy = found->second;
  if (outcome) {
    copy.fetched = true;
    enter_memory(key, copy, copy.arena, 0);
    for (const Asked& one : std::exchange(copy.asked, {})) {
      const auto client = clients_.find(one.client);
      if (client == clients_.end()) continue;
      --client->second.waiting;
      if (copy.freed) {
        refuse(one.client, one.request, gone_by_free(key), actions);
      } else if (copy.references.held.contains(one.client)) {
        answer(one.client, one.request, copy, actions);
      } else {  // The client released the reference meanwhile.
        refuse(one.client, one.request, lost(key, "nobody referred to it any more"), actions);
      }
    }
    if (is_unused(copy.references)) {
      drop_copy(key, actions);
    } else if (copy.freed) {
      forget_freed(key, actions);
    }
  } else {
    refuse_asked(copy, outcome.error(), actions);
    // References inside objects do not need the bytes on this node.
    const bool stays = copy.counted && copy.references.held.contains(kContainedRefs);
    std::erase_if(copy.references.held, [&](const auto& one) {
      if (stays && one.first == kContainedRefs) return false;
      if (const auto holder = clients_.find(one.first); holder != clients_.end()) holder->second.refers.erase(key);
      return true;
    });
    if (copy.arena.arena != 0) close_arena(std::exchange(copy.arena, {}), actions);
    release_contained_refs(copy);
    if (stays) {
      copy.named = true;
      copy.bytes = 0;
    } else {
      if (copy.counted) actions.home.push_back({key, copy.address, StoreActions::Home::What::kRelease, false});
      objects_.erase(found);
    }
  }
  make_room(now, actions);
  return actions;
}

std::optional<std::string> StoreTable::release(StoreSession id, const ObjectKey& key, StoreActions& actions) {
  const auto found = objects_.find(key);
  if (found == objects_.end()) return std::nullopt;  // It was rejected or lost.
  Object& object = found->second;
  const auto held = object.references.held.find(id);
  if (held == object.references.held.end())
    return fmt::format("object {} was given back more often than taken", to_string(key));
  if (--held->second.count == 0) {
    forget_hold(object, id);
    clients_.at(id).refers.erase(key);
    if (object.naming && clients_.at(id).writer == key.writer) end_naming(key, object, actions);
  }
  drop_unused(key, actions);
  return std::nullopt;
}

void StoreTable::drop_unused(const ObjectKey& key, StoreActions& actions) {
  if (!is_unused(objects_.at(key).references)) return;
  if (key.node == node_) {
    free_object(key, actions);
  } else {
    drop_copy(key, actions);
  }
}

// If the transfer has not been reported yet, the count is negative until it is, or until the transfer times out.
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

// Most are accepted within moments, so that the list stays short.
void StoreTable::forget_settled() {
  while (!lent_.empty() && !awaits_claim(lent_.front().second)) lent_.pop_front();
}

void StoreTable::lend(BootTime now, const ObjectKey& key, StoreActions& actions) {
  const auto found = objects_.find(key);
  if (found == objects_.end()) return;
  if (key.node != node_) {
    actions.home.push_back({key, found->second.address, StoreActions::Home::What::kLend, false});
    return;
  }
  References& references = found->second.references;
  ++references.lent;
  await_claim(now, key, references);
}

void StoreTable::free_object(const ObjectKey& key, StoreActions& actions) {
  const auto found = objects_.find(key);
  Object& object = found->second;
  const ArenaKey arena = object.arena;
  const bool in_memory = object.in_memory;
  refuse_asked(object, lost(key, "nobody referred to it any more"), actions);
  leave_disk(object, actions);
  const bool arena_stays = in_memory && leave_memory(key, object, actions);
  release_contained_refs(object);
  freed_.erase(key);
  objects_.erase(found);
  forget_settled();
  if (arena_stays) tell_freed(arena, {key.number}, actions);
}

// If another process waits for room, an empty arena is dropped at once, before its writer fills it again.
void StoreTable::tell_freed(const ArenaKey& arena, const std::vector<uint64_t>& numbers, StoreActions& actions) {
  if (numbers.empty() || arenas_.at(arena).writer_gone) return;
  const StoreSession writer = writers_.at(arena.writer);
  protocol::FromStore message;
  message.mutable_freed()->mutable_numbers()->Add(numbers.begin(), numbers.end());
  message.mutable_freed()->set_drop(
      !wanted_.empty() && (wanted_.front().restore || wanted_.front().copy || wanted_.front().client != writer));
  actions.send.push_back({writer, std::move(message), {}});
}

// A copy that is being fetched is dropped on arrival.
void StoreTable::drop_copy(const ObjectKey& key, StoreActions& actions) {
  const auto found = objects_.find(key);
  Object& copy = found->second;
  if (!copy.fetched && !copy.named) return;
  for (int counted = (copy.fetched ? 1 : 0) + (copy.counted ? 1 : 0); counted > 0; --counted) {
    actions.home.push_back({key, copy.address, StoreActions::Home::What::kRelease, false});
  }
  leave_disk(copy, actions);
  if (copy.in_memory) leave_memory(key, copy, actions);
  release_contained_refs(copy);
  freed_.erase(key);
  objects_.erase(key);
}

StoreActions StoreTable::on_gone(BootTime now, StoreSession id) {
  StoreActions actions;
  now_ = now;
  const auto found = clients_.find(id);
  if (found == clients_.end()) return actions;
  const uint64_t writer = found->second.writer;
  const auto refers = found->second.refers;
  used_ -= found->second.reserved;
  for (auto& [key, arena] : arenas_) arena.known_to.erase(id);
  std::erase_if(wanted_, [&](const Wanted& wanted) { return !wanted.copy && !wanted.restore && wanted.client == id; });
  for (const ObjectKey& key : refers) {
    Object& object = objects_.at(key);
    forget_hold(object, id);
    std::erase_if(object.asked, [id](const Asked& asked) { return asked.client == id; });
    if (object.naming && key.writer == writer) end_naming(key, object, actions);
    if (writer == kOwnWriter && key.node == node_) {
      ++object.references.returning;
      returning_.emplace_back(now + kReturnPatience, key);
    }
    drop_unused(key, actions);
  }
  if (writer != kOwnWriter) writers_.erase(writer);
  clients_.erase(found);
  std::erase_if(actions.send, [id](const StoreActions::Send& send) { return send.to == id; });
  // Objects that it announced but did not put will not arrive.
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
  std::vector<ArenaKey> empty;
  for (auto arena = arenas_.lower_bound({writer, 0});
       writer != kOwnWriter && arena != arenas_.end() && arena->first.writer == writer; ++arena) {
    arena->second.writer_gone = true;
    if (arena->second.residents.empty()) empty.push_back(arena->first);
  }
  for (const ArenaKey& key : empty) close_arena(key, actions);
  grant(actions);
  make_room(now, actions);
  return actions;
}

}  // namespace volador::worker
