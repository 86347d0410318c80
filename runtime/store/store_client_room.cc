// StoreClient: arenas of a process, allocation, and objects released when the store needs room.
#include <utility>

#include "runtime/store/store_client_parts.h"

namespace volador {
namespace {

constexpr size_t kArenaStep = size_t{2} << 20;

}  // namespace

// ---- Reclaim: the store needs room ----

void StoreClient::Impl::on_reclaim(const protocol::Reclaim& reclaim) {
  protocol::ToStore message;
  for (const auto& asked : reclaim.objects()) {
    auto& one = *message.mutable_yield()->add_objects();
    *one.mutable_name() = asked.name();
    one.set_serial(asked.serial());
    const auto known = objects.find(object_key_of(asked.name()));
    auto object = known == objects.end() ? nullptr : known->second.lock();
    if (object == nullptr) continue;  // Its release is on the way to the store: this process does not read it.
    one.set_answer(let_go(*object, asked.serial(), reclaim));
    unlocked.push_back(std::move(object));
  }
  send(message);
}

protocol::YieldObjects::Answer StoreClient::Impl::let_go(const Object& object, uint64_t serial,
                                                         const protocol::Reclaim& reclaim) {
  if (reclaim.freed()) {
    object.error_ =
        Error{ErrorCode::kObjectLost,
              fmt::format("object {} is lost: volador::free gave it up for all who refer to it; put it again",
                          to_string(object.key_))};
  }
  if (object.mapping_ == nullptr) return protocol::YieldObjects::YIELDED;
  if (object.readings_ > 0) {
    object.wanted_ = serial;
    return protocol::YieldObjects::READING;
  }
  if (std::exchange(object.read_lately_, false) && !reclaim.insist()) return protocol::YieldObjects::READ_LATELY;
  object.mapping_.reset();
  object.away_ = true;
  return protocol::YieldObjects::YIELDED;
}

void StoreClient::Impl::ask_place(const Object& object) {
  const auto question = std::make_shared<Question>();
  if (object.generation_ != generation || !socket) {
    object.error_ = broken.value_or(Error{ErrorCode::kUnavailable, "the object store of this node has ended"});
    return;
  }
  const uint64_t request = next_request++;
  question->object = object.weak_from_this();
  question->locates = true;
  questions.emplace(request, question);
  object.asked_ = question;
  protocol::ToStore message;
  message.mutable_locate()->set_request(request);
  *message.mutable_locate()->mutable_name() = to_message(object.key_);
  send(message);
}

// Requests that fit into an existing arena's hole need no new arena.
void StoreClient::Impl::serve_rooms() {
  for (auto room = rooms.begin(); room != rooms.end();) {
    const auto& [request, question] = *room;
    question->range = allocate(question->bytes);
    if (!question->range) {
      ++room;
      continue;
    }
    question->answered = true;
    protocol::ToStore cancel;
    cancel.mutable_cancel_reserve()->set_request(request);
    send(cancel);
    room = rooms.erase(room);
  }
}

// ---- arenas ----

void StoreClient::Impl::on_freed(const protocol::Freed& freed) {
  for (const uint64_t number : freed.numbers()) {
    const auto range = written.extract(number);
    if (!range.empty()) give_back(range.mapped().arena, range.mapped().offset);
  }
  if (freed.drop()) {
    drop_empty(std::chrono::steady_clock::time_point::max());
  } else {
    serve_rooms();
  }
}

void StoreClient::Impl::give_back(uint64_t arena, size_t offset) {
  const auto found = arenas.find(arena);
  if (found == arenas.end()) return;
  found->second->ranges.free(offset);
  if (found->second->ranges.is_empty()) found->second->empty_since = std::chrono::steady_clock::now();
}

void StoreClient::Impl::drop_empty(std::chrono::steady_clock::time_point unused_since) {
  for (auto arena = arenas.begin(); arena != arenas.end();) {
    if (!arena->second->ranges.is_empty() || arena->second->empty_since > unused_since) {
      ++arena;
      continue;
    }
    protocol::ToStore drop;
    drop.mutable_drop_arena()->set_arena(arena->first);
    send(drop);
    arena = arenas.erase(arena);
  }
}

std::optional<StoreClient::Impl::Range> StoreClient::Impl::allocate(size_t bytes) {
  for (auto& [number, arena] : arenas) {
    if (const auto offset = arena->ranges.allocate(bytes)) return Range{number, *offset, bytes, arena->memory.mapping};
  }
  return std::nullopt;
}

Result<StoreClient::Impl::Range> StoreClient::Impl::add_arena(Lock& lock, size_t bytes) {
  const size_t size = bytes > arena_bytes / 2 ? round_up(bytes, kArenaStep) : arena_bytes;
  const uint64_t request = next_request++;
  const uint64_t its_generation = generation;
  const auto question = std::make_shared<Question>();
  question->bytes = bytes;
  question->arena_bytes = size;
  questions.emplace(request, question);
  rooms.emplace(request, question);
  protocol::ToStore reserve;
  reserve.mutable_reserve()->set_request(request);
  reserve.mutable_reserve()->set_bytes(static_cast<int64_t>(size));
  send(reserve);
  changed.wait(lock, [&] { return question->answered; });
  if (question->error) return make_error(*question->error);
  if (question->range) return std::move(*question->range);
  auto made = make_arena(size);
  if (its_generation != generation)
    return make_error(ErrorCode::kUnavailable, "the object store of this node has ended");
  protocol::ToStore message;
  if (!made) {
    message.mutable_drop_arena()->set_bytes(static_cast<int64_t>(size));
    send(message);
    return make_error(std::move(made).error());
  }
  const uint64_t number = next_arena++;
  message.mutable_add_arena()->set_arena(number);
  message.mutable_add_arena()->set_bytes(static_cast<int64_t>(size));
  const int fd = made->fd.get();
  send(message, std::span(&fd, 1));
  made->fd.reset();  // The store has the descriptor.
  if (size == arena_bytes) arena_bytes = std::min(2 * arena_bytes, arena_bytes_max);
  auto& arena = arenas[number];
  arena = std::make_unique<OwnArena>(number, std::move(*made));
  return Range{number, *arena->ranges.allocate(bytes), bytes, arena->memory.mapping};
}

void StoreClient::Impl::release(const ObjectKey& key, uint64_t its_generation) {
  const std::lock_guard lock(mutex);
  if (const auto known = objects.find(key); known != objects.end() && known->second.expired()) objects.erase(known);
  if (its_generation != generation) return;
  protocol::ToStore message;
  *message.mutable_release()->mutable_name() = to_message(key);
  send(message);
}

}  // namespace volador
