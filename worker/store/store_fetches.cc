// StoreServer: fetching objects of other nodes, and serving other nodes' reads.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/log.h"
#include "runtime/quantities.h"
#include "runtime/store/object_name.h"
#include "worker/store/store_server_impl.h"

namespace volador::worker {
namespace {

constexpr int kReadsAhead = 8;  // Concurrent reads per fetched object.
// Smaller copies, and those beyond kFillsMax at once, are read directly into fresh memory.
constexpr int64_t kFillBytesMin = int64_t{4} << 20;
constexpr int kFillsMax = 8;
constexpr auto kHomePatience = std::chrono::seconds(60);                       // Per chunk.
constexpr auto kSourcePatience = std::chrono::seconds(10);                     // Per chunk, if another source exists.
constexpr std::chrono::nanoseconds kResumePauseMax = std::chrono::seconds(1);  // Maximum pause between retries.
constexpr auto kReturnPause = std::chrono::milliseconds(100);  // Before each retry to reach a lost owner node.

Error cannot_be_had(const ObjectKey& key, const std::string& address, const Error& error) {
  if (error.code == ErrorCode::kObjectLost || error.code == ErrorCode::kPermissionDenied) return error;
  return {ErrorCode::kObjectLost, fmt::format("object {} cannot be had from its node {} at {}: {}", to_string(key),
                                              short_id(key.node), address, error.message)};
}

std::string chunk_of(std::span<const char> bytes) {
  std::string chunk;
  chunk.reserve(bytes.size() + sizeof(uint64_t));  // The checksum follows.
  chunk.assign(bytes.data(), bytes.size());
  return chunk;
}

}  // namespace

// ---- requests of other nodes ----

void StoreServer::Impl::answer_peer(StoreSession id, const protocol::FromStore& message) {
  if (message.kind_case() != protocol::FromStore::kLocated) return;  // Other messages concern writers and mappings.
  auto question = peer_questions.extract({id, message.located().request()});
  if (question.empty()) return;
  if (message.located().error_code() != 0) {
    question.mapped()(make_error(error_code_from(int64_t{message.located().error_code()}), message.located().error()));
  } else {
    question.mapped()(message.located().SerializeAsString());
  }
}

// Answers a read of an object that is still being fetched, when its chunk has arrived.
void StoreServer::Impl::read_coming(Fetch& fetch, int64_t offset, int64_t bytes, PeerAnswer answer) {
  const bool known = fetch.bytes >= 0;
  if (offset < 0 || offset % kStoreChunkBytes != 0 || bytes <= 0 ||
      (known && (offset >= fetch.bytes || bytes != std::min(kStoreChunkBytes, fetch.bytes - offset)))) {
    return answer(make_error(ErrorCode::kInvalidArgument,
                             fmt::format("{} from {} of an object on its way {} no chunk of it", counted(bytes, "byte"),
                                         offset, bytes == 1 ? "is" : "are")));
  }
  if (fetch.memory && fetch.have[static_cast<size_t>(offset / kStoreChunkBytes)])
    return answer(chunk_of(fetch.chunk(offset)));
  fetch.askers[offset].push_back(std::move(answer));
}

void StoreServer::Impl::read_object(const ObjectKey& key, int64_t offset, int64_t bytes, PeerAnswer answer) {
  if (const auto coming = fetches.find(key); coming != fetches.end())
    return read_coming(coming->second, offset, bytes, std::move(answer));
  const auto place = table.find(key);
  if (!place)
    return answer(make_error(ErrorCode::kObjectLost,
                             fmt::format("object {} is not on node {} any more", to_string(key), options.node_name)));
  if (offset < 0 || bytes <= 0 || bytes > kStoreChunkBytes || offset > place->bytes - bytes) {
    return answer(make_error(ErrorCode::kInvalidArgument, fmt::format("object {} has {} bytes; {} from {} were asked",
                                                                      to_string(key), place->bytes, bytes, offset)));
  }
  if (place->disk) {  // Read from disk: the object need not return to memory for another node.
    return disk->read_part(
        *place->disk, offset, bytes,
        [self = weak_from_this(), to = loop.get(), answer = std::move(answer)](Result<std::string> part) {
          const auto held = std::make_shared<Result<std::string>>(std::move(part));
          to->post([self, held, answer] {
            if (const auto store = self.lock(); store && !store->closed) answer(std::move(*held));
          });
        });
  }
  const auto found = memory.find(place->arena);
  if (found == memory.end()) return answer(make_error(ErrorCode::kInternal, "an object without memory"));
  answer(chunk_of({reinterpret_cast<const char*>(found->second.mapping->data()) + place->offset + offset,
                   static_cast<size_t>(bytes)}));
}

// ---- objects of other nodes ----

void StoreServer::Impl::home(const StoreActions::Home& home) {
  using What = StoreActions::Home::What;
  if (home.what == What::kFetch) return fetch(home.key, home.address, home.claim);
  if (home.what == What::kRefer) return refer(home.key, home.address);
  protocol::ToStore message;
  const protocol::ObjectName name = to_message(home.key);
  if (home.what == What::kClaim) {  // One reference more for the acceptance, and one less.
    peers->acquire(home.address, home.key, true, [](const Result<Acquired>&) {});
    *message.mutable_release()->mutable_name() = name;
  } else if (home.what == What::kLend) {
    *message.mutable_lend()->mutable_name() = name;
  } else if (home.what == What::kFreeCopy) {
    *message.mutable_free()->mutable_name() = name;
    return peers->notify(home.address, std::move(message));
  } else if (home.what == What::kFree) {
    *message.mutable_free()->mutable_name() = name;
  } else {
    *message.mutable_release()->mutable_name() = name;
  }
  peers->tell(home.address, std::move(message));
}

// On failure, readers get the error.
void StoreServer::Impl::refer(const ObjectKey& key, const std::string& address) {
  peers->acquire(address, key, false, [self = weak_from_this(), address](const Result<Acquired>& acquired) {
    if (const auto store = self.lock(); store && !store->closed && acquired) store->cut_homes.erase(address);
  });
}

// For a while the owner node keeps objects referenced here.
void StoreServer::Impl::home_lost(const std::string& address) {
  if (!table.on_home_lost(address)) {
    cut_homes.erase(address);
    return;
  }
  const auto [cut, is_new] = cut_homes.try_emplace(address, clock.now());
  if (clock.now() - cut->second > kReturnPatience) {
    cut_homes.erase(cut);
    return;
  }
  loop->add_timer(clock.now() + kReturnPause, [self = weak_from_this(), address] {
    if (const auto store = self.lock(); store && !store->closed)
      store->apply_actions(store->table.refer_again(address));
  });
}

void StoreServer::Impl::fetch(const ObjectKey& key, const std::string& address, bool claim) {
  Fetch& fetch = fetches[key];
  fetch.serial = next_fetch++;
  fetch.address = address;
  fetch.progress = clock.now();
  peers->acquire(address, key, claim,
                 [self = weak_from_this(), key, address, serial = fetch.serial](Result<Acquired> acquired) {
                   const auto store = self.lock();
                   if (!store || store->closed) return;
                   Fetch* here = store->find_fetch(key, serial);
                   if (here == nullptr) return;
                   if (!acquired)
                     return store->finish_fetch(key, make_error(cannot_be_had(key, address, acquired.error())));
                   const protocol::Located& place = acquired->place;
                   here->bytes = place.bytes();
                   here->connection = acquired->connection;
                   if (place.sources_size() > 0 && place.sources(0) != store->options.address)
                     here->source = place.sources(0);
                   store->apply_actions(store->table.set_contents(store->clock.now(), key, place));
                   store->apply_actions(store->table.reserve_copy(store->clock.now(), key, place.bytes()));
                 });
}

StoreServer::Impl::Fetch* StoreServer::Impl::find_fetch(const ObjectKey& key, uint64_t serial) {
  const auto found = fetches.find(key);
  return found == fetches.end() || found->second.serial != serial ? nullptr : &found->second;
}

void StoreServer::Impl::give_rooms() {
  for (auto& [key, room] : table.take_rooms()) {
    if (!room) {
      loop->post([self = weak_from_this(), key = key, error = room.error()] {
        if (const auto store = self.lock(); store && !store->closed) store->finish_fetch(key, make_error(error));
      });
      continue;
    }
    Fetch& fetch = fetches[key];
    const auto found = find_memory(fetch, *room);
    table.set_copy(key, *room, fetch.bytes);
    if (!found) {
      loop->post([self = weak_from_this(), key = key, error = found.error()] {
        if (const auto store = self.lock(); store && !store->closed) store->finish_fetch(key, make_error(error));
      });
      continue;
    }
    fetch.progress = clock.now();
    for (int64_t offset = 0; offset < fetch.bytes; offset += kStoreChunkBytes) fetch.wanted.push_back(offset);
    fetch.have.assign(fetch.wanted.size(), false);
    read_on(key);
  }
}

// Warm memory is read into directly; fresh memory of a large object is filled by write(2).
Result<void> StoreServer::Impl::find_memory(Fetch& fetch, uint64_t arena) {
  const ArenaKey key{kOwnWriter, arena};
  if (memory.contains(key) || fetch.bytes < kFillBytesMin || fills >= kFillsMax) {
    auto mapping = own_memory(arena, std::max<int64_t>(fetch.bytes, 1));
    if (!mapping) return make_error(std::move(mapping).error());
    fetch.memory = std::move(*mapping);
    return {};
  }
  auto made = make_open_arena(static_cast<size_t>(fetch.bytes));
  if (!made) return make_error(std::move(made).error());
  auto fill = std::make_shared<net::UniqueFd>(::fcntl(made->fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!*fill) return make_error(ErrorCode::kUnavailable, fmt::format("shared memory: {}", std::strerror(errno)));
  ++fills;
  fetch.fill = std::move(fill);
  fetch.memory = made->mapping;
  memory.try_emplace(key, Memory{std::move(made->fd), made->mapping});
  return {};
}

// Requests the next chunks: from the source named by the owner node while it delivers, otherwise from the owner.
void StoreServer::Impl::read_on(const ObjectKey& key) {
  const auto found = fetches.find(key);
  if (found == fetches.end()) return;
  const uint64_t serial = found->second.serial;
  while (true) {
    Fetch* fetch = find_fetch(key, serial);  // The answer may arrive at once.
    if (fetch == nullptr || fetch->pausing || fetch->under_way >= kReadsAhead || fetch->wanted.empty()) return;
    if (fetch->source.empty() && fetch->connection != peers->connection_number(fetch->address))
      return acquire_again(key, *fetch);
    const int64_t offset = fetch->wanted.front();
    fetch->wanted.pop_front();
    ++fetch->under_way;
    const bool at_home = fetch->source.empty();
    const auto room = std::make_shared<net::ReplyRoom>();
    room->bytes = fetch->chunk(offset);
    room->keep = fetch->memory;
    if (fetch->fill) {
      const auto buffer = filler.buffer();
      room->bytes = {buffer.get(), room->bytes.size()};
      room->keep = buffer;
    }
    peers->read(at_home ? fetch->address : fetch->source, key, offset, room, at_home ? kHomePatience : kSourcePatience,
                [self = weak_from_this(), key, serial, offset, at_home, room](const Result<void>& chunk) {
                  const auto store = self.lock();
                  Fetch* into = !store || store->closed ? nullptr : store->find_fetch(key, serial);
                  if (into == nullptr) return;
                  if (chunk) return store->came(key, *into, offset, room);
                  --into->under_way;
                  into->wanted.push_front(offset);
                  store->read_failed(key, *into, at_home, chunk.error());
                });
  }
}

void StoreServer::Impl::came(const ObjectKey& key, Fetch& fetch, int64_t offset,
                             const std::shared_ptr<net::ReplyRoom>& chunk) {
  if (!fetch.fill) return arrived(key, fetch, offset, chunk->bytes);
  filler.write(
      fetch.fill, offset, chunk->bytes, chunk,
      [self = weak_from_this(), to = loop.get(), key, serial = fetch.serial, offset, chunk](Result<void> written) {
        to->post([self, key, serial, offset, chunk, written = std::move(written)] {
          const auto store = self.lock();
          Fetch* here = !store || store->closed ? nullptr : store->find_fetch(key, serial);
          if (here == nullptr) return;
          if (!written) return store->finish_fetch(key, make_error(written.error()));
          store->arrived(key, *here, offset, chunk->bytes);
        });
      });
}

void StoreServer::Impl::arrived(const ObjectKey& key, Fetch& fetch, int64_t offset, std::span<const char> chunk) {
  --fetch.under_way;
  fetch.have[static_cast<size_t>(offset / kStoreChunkBytes)] = true;
  fetch.progress = clock.now();
  fetch.pause = kResumePause;
  const auto askers = fetch.askers.extract(offset);
  const bool whole = fetch.wanted.empty() && fetch.under_way == 0;
  if (!askers.empty()) {
    for (const auto& answer : askers.mapped()) answer(chunk_of(chunk));
  }
  if (whole) return finish_fetch(key, {});
  read_on(key);
}

void StoreServer::Impl::read_failed(const ObjectKey& key, Fetch& fetch, bool at_home, const Error& error) {
  if (!at_home) {  // The owner node has it.
    if (!fetch.source.empty())
      log::info("objects", "an object is read at its home: the node that had a copy failed",
                {{"object", to_string(key)}, {"node", fetch.source}, {"error", error.message}});
    fetch.source.clear();
    return read_on(key);
  }
  const bool for_good = error.code == ErrorCode::kObjectLost || error.code == ErrorCode::kPermissionDenied ||
                        error.code == ErrorCode::kInvalidArgument;
  if (for_good || clock.now() - fetch.progress > options.resume_patience)
    return finish_fetch(key, make_error(cannot_be_had(key, fetch.address, error)));
  if (std::exchange(fetch.pausing, true)) return;
  log::info("objects", "an object was cut off on its way; it goes on where it stopped",
            {{"object", to_string(key)}, {"node", fetch.address}, {"error", error.message}});
  resume_later(key, fetch);
}

void StoreServer::Impl::resume_later(const ObjectKey& key, Fetch& fetch) {
  const auto pause = fetch.pause;
  fetch.pause = std::min(2 * fetch.pause, kResumePauseMax);
  loop->add_timer(clock.now() + pause, [self = weak_from_this(), key, serial = fetch.serial] {
    const auto store = self.lock();
    Fetch* here = !store || store->closed ? nullptr : store->find_fetch(key, serial);
    if (here == nullptr) return;
    here->pausing = false;
    store->read_on(key);
  });
}

// The connection to the owner node was lost, and with it this store's reference there.
void StoreServer::Impl::acquire_again(const ObjectKey& key, Fetch& fetch) {
  fetch.pausing = true;
  peers->acquire(
      fetch.address, key, false, [self = weak_from_this(), key, serial = fetch.serial](Result<Acquired> acquired) {
        const auto store = self.lock();
        Fetch* here = !store || store->closed ? nullptr : store->find_fetch(key, serial);
        if (here == nullptr) return;
        if (acquired) {
          here->connection = acquired->connection;
          here->pausing = false;
          return store->read_on(key);
        }
        const bool lost =
            acquired.error().code == ErrorCode::kObjectLost || acquired.error().code == ErrorCode::kPermissionDenied;
        if (lost || store->clock.now() - here->progress > store->options.resume_patience) {
          return store->finish_fetch(key, make_error(cannot_be_had(key, here->address, acquired.error())));
        }
        store->resume_later(key, *here);
      });
}

void StoreServer::Impl::finish_fetch(const ObjectKey& key, Result<void> outcome) {
  auto fetch = fetches.extract(key);
  if (!fetch.empty() && fetch.mapped().fill) {
    if (--fills == 0) filler.drop_buffers();
    if (outcome) outcome = seal_arena(fetch.mapped().fill->get());
  }
  if (!outcome && !fetch.empty()) {
    if (fetch.mapped().bytes >= 0) {  // Counted there.
      protocol::ToStore release;
      *release.mutable_release()->mutable_name() = to_message(key);
      peers->tell(fetch.mapped().address, std::move(release));
    }
    for (const auto& [offset, askers] : fetch.mapped().askers) {
      for (const auto& answer : askers)
        answer(make_error(ErrorCode::kUnavailable,
                          fmt::format("node {} could not get object {} itself", options.node_name, to_string(key))));
    }
  }
  apply_actions(table.on_fetched(clock.now(), key, std::move(outcome)));
}

}  // namespace volador::worker
