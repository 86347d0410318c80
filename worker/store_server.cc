#include "worker/store_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "runtime/log.h"
#include "runtime/net/fd_passing.h"
#include "runtime/net/io_loop.h"
#include "runtime/net/socket.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/random.h"
#include "runtime/security/revocations.h"
#include "runtime/security/tls_context.h"
#include "runtime/store/arena.h"
#include "runtime/store/object_name.h"
#include "worker/arena_filler.h"
#include "worker/spill_io.h"
#include "worker/store_peers.h"

namespace volador::worker {
namespace {

using std::chrono::milliseconds;

constexpr int kStoreMessagesATurn = 64;
constexpr size_t kOutboxBytesMax = size_t{16} << 20;  // To one process; one that does not read so much is cut off.
constexpr size_t kConnectionsMax = 10'000;
constexpr int kReadsAhead = 8;  // Of one object that is fetched.
constexpr int64_t kFillBytesMin = int64_t{4} << 20;  // Smaller copies, and those beyond kFillsMax at once, are read into fresh memory as into warm.
constexpr int kFillsMax = 8;
constexpr auto kHomePatience = std::chrono::seconds(60);    // For one chunk.
constexpr auto kSourcePatience = std::chrono::seconds(10);  // The same, where it can be had elsewhere.
constexpr std::chrono::nanoseconds kResumePause = milliseconds(50);      // Before the first trial to go on after a cut; doubles,
constexpr std::chrono::nanoseconds kResumePauseMax = milliseconds(1000);  // up to this.

Error cannot_be_had(const ObjectKey& key, const std::string& address, const Error& error) {
  if (error.code == ErrorCode::kObjectLost || error.code == ErrorCode::kPermissionDenied) return error;
  return {ErrorCode::kObjectLost, fmt::format("object {} cannot be had from its node {} at {}: {}", to_string(key), short_id(key.node), address, error.message)};
}

std::string chunk_of(std::span<const char> bytes) {
  std::string chunk;
  chunk.reserve(bytes.size() + sizeof(uint64_t));  // Its checksum follows.
  chunk.assign(bytes.data(), bytes.size());
  return chunk;
}

}  // namespace

struct StoreServer::Impl : std::enable_shared_from_this<StoreServer::Impl> {
  Impl(StoreServerOptions given, const Clock& its_clock, Random& its_random)
      : options(std::move(given)), clock(its_clock), random(its_random), table(options.node, options.node_name, options.limits) {
    table.set_address(options.address);
    bytes_max = options.limits.bytes_max;
  }

  struct Packet {
    std::string bytes;
    std::optional<ArenaKey> arena;  // Its descriptor goes along.
  };
  struct Connection final : net::Pollable {
    std::weak_ptr<Impl> store;
    StoreSession id{};
    uint64_t writer = 0;
    net::UniqueFd fd;
    std::deque<Packet> outbox;
    size_t outbox_bytes = 0;
    bool writing = false;
    void on_events(uint32_t events) override {
      const auto owner = store.lock();
      if (!owner || !fd) return;
      if ((events & EPOLLOUT) != 0) owner->flush(*this);
      if (fd && (events & ~static_cast<uint32_t>(EPOLLOUT)) != 0) owner->read(*this);
    }
  };
  struct Listener final : net::Pollable {
    std::weak_ptr<Impl> store;
    net::UniqueFd fd;
    void on_events(uint32_t) override {
      if (const auto owner = store.lock()) owner->accept();
    }
  };
  struct Memory {
    net::UniqueFd fd;
    std::shared_ptr<Mapping> mapping;
  };
  using PeerAnswer = std::function<void(Result<std::string>)>;
  struct Fetch {  // One object of another node on its way.
    uint64_t serial = 0;
    std::string address;         // Of its home.
    std::string source;          // Where it is read; empty: at home.
    int64_t bytes = -1;          // Not known yet.
    uint64_t connection = 0;     // Over which the home counts us.
    std::deque<int64_t> wanted;  // Offsets of chunks that nobody is asked for at this moment.
    std::vector<bool> have;      // Which chunks have come.
    int under_way = 0;
    bool pausing = false;        // After a cut.
    std::chrono::nanoseconds pause = kResumePause;
    BootTime progress{};         // When something came last.
    std::shared_ptr<Mapping> memory;
    std::shared_ptr<const net::UniqueFd> fill;  // Of fresh memory, while chunks are written into it; null: they are read where they belong.
    std::map<int64_t, std::vector<PeerAnswer>> askers;  // Other nodes, for chunks that have not come.

    std::span<char> chunk(int64_t offset) const {
      return {reinterpret_cast<char*>(memory->data()) + offset, static_cast<size_t>(std::min(kStoreChunkBytes, bytes - offset))};
    }
  };

  void accept();
  void read(Connection& connection);
  void flush(Connection& connection);
  void end(StoreSession id, const std::string& why);
  void carry_out(StoreActions actions);
  void send(StoreActions::Send& send);
  void answer_peer(StoreSession id, const protocol::FromStore& message);
  void home(const StoreActions::Home& home);
  void fetch(const ObjectKey& key, const std::string& address, bool claim);
  void give_rooms();
  void read_on(const ObjectKey& key);
  Fetch* find_fetch(const ObjectKey& key, uint64_t serial);
  void came(const ObjectKey& key, Fetch& fetch, int64_t offset, const std::shared_ptr<net::ReplyRoom>& chunk);
  void arrived(const ObjectKey& key, Fetch& fetch, int64_t offset, std::span<const char> chunk);
  void read_failed(const ObjectKey& key, Fetch& fetch, bool at_home, const Error& error);
  void resume_later(const ObjectKey& key, Fetch& fetch);
  void acquire_again(const ObjectKey& key, Fetch& fetch);
  void finish_fetch(const ObjectKey& key, Result<void> outcome);
  void read_coming(Fetch& fetch, int64_t offset, int64_t bytes, PeerAnswer answer);
  void read_object(const ObjectKey& key, int64_t offset, int64_t bytes, PeerAnswer answer);
  void spill(const StoreActions::Spill& job);
  void restore(const StoreActions::Restore& job);
  Result<std::shared_ptr<Mapping>> own_memory(uint64_t arena, int64_t bytes);
  Result<void> find_memory(Fetch& fetch, uint64_t arena);
  void log_spilling(const Result<SpillSums>& outcome);
  void tick();
  void note_usage();
  void tell_actors(const std::vector<ActorId>& changed, bool all);

  const StoreServerOptions options;
  const Clock& clock;
  Random& random;
  StoreTable table;
  std::unique_ptr<net::IoLoop> loop;
  std::shared_ptr<security::TlsContext> tls;
  std::unique_ptr<StorePeers> peers;
  std::unique_ptr<SpillIo> disk;  // Null: nothing is spilled.
  ArenaFiller filler{static_cast<size_t>(kStoreChunkBytes)};
  int fills = 0;  // Of fetches.
  bool has_spilled = false;       // Said in the log.
  bool disk_fails = false;        // As well.
  std::shared_ptr<Listener> listener;
  uint64_t next_client = 1;
  uint64_t next_question = 1;
  std::map<StoreSession, std::shared_ptr<Connection>> connections;
  std::map<net::CallerId, StoreSession> peer_clients;
  std::map<std::pair<StoreSession, uint64_t>, PeerAnswer> peer_questions;
  std::map<ArenaKey, Memory> memory;
  std::map<ObjectKey, Fetch> fetches;
  uint64_t next_fetch = 1;
  net::IoLoop::TimerId timer = 0;
  std::optional<BootTime> timer_at;
  bool closed = false;
  std::function<void(const protocol::HoldActors&)> actors_told;
  uint64_t actors_sequence = 0;
  std::atomic<int64_t> bytes_used{0};
  std::atomic<int64_t> bytes_max{0};
  std::atomic<int64_t> objects{0};
  std::atomic<int64_t> spilled{0};
  std::atomic<int64_t> spare{0};
};

// ---- processes of this node ----

void StoreServer::Impl::accept() {
  while (true) {
    net::UniqueFd fd(::accept4(listener->fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;
    ucred peer{};
    socklen_t length = sizeof peer;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || (peer.uid != ::geteuid() && peer.uid != 0) || connections.size() >= kConnectionsMax) continue;
    net::tune_socket(fd.get(), false);
    const auto connection = std::make_shared<Connection>();
    connection->store = weak_from_this();
    connection->id = StoreSession{next_client++};
    do {
      connection->writer = random.next();
    } while (connection->writer == 0);
    connection->fd = std::move(fd);
    if (!loop->watch(connection->fd.get(), EPOLLIN, connection)) continue;
    connections.emplace(connection->id, connection);
    table.on_connected(connection->id, connection->writer);
  }
}

void StoreServer::Impl::read(Connection& connection) {
  const StoreSession id = connection.id;
  for (int i = 0; i < kStoreMessagesATurn && connection.fd; ++i) {
    auto message = net::try_recv_message(connection.fd.get());
    if (!message) return end(id, message.error().code == ErrorCode::kUnavailable ? "" : message.error().message);
    if (!*message) return;
    protocol::ToStore parsed;
    if (!parsed.ParseFromString((*message)->bytes)) return end(id, "it sent what is no message");
    if (parsed.kind_case() == protocol::ToStore::kAddArena) {
      auto& fds = (*message)->fds;
      auto mapping = fds.size() == 1 && parsed.add_arena().bytes() > 0
                         ? map_arena(fds[0].get(), static_cast<size_t>(parsed.add_arena().bytes()))
                         : make_error(ErrorCode::kInvalidArgument, "an arena takes one descriptor");
      if (!mapping) return end(id, mapping.error().message);
      memory.try_emplace({connection.writer, parsed.add_arena().arena()}, Memory{std::move(fds[0]), std::move(*mapping)});
    }
    carry_out(table.on_message(clock.now(), id, parsed));
  }
}

void StoreServer::Impl::end(StoreSession id, const std::string& why) {
  const auto found = connections.find(id);
  if (found == connections.end()) return;
  const auto connection = found->second;
  connections.erase(found);
  if (!why.empty()) log::warn("objects", "a process was cut off from the object store", {{"why", why}});
  loop->unwatch(connection->fd.get());
  connection->fd.reset();
  carry_out(table.on_gone(clock.now(), id));
}

void StoreServer::Impl::flush(Connection& connection) {
  while (!connection.outbox.empty()) {
    const Packet& packet = connection.outbox.front();
    int fd = -1;
    if (packet.arena) {
      const auto found = memory.find(*packet.arena);
      if (found != memory.end()) fd = found->second.fd.get();
    }
    if (!net::send_message(connection.fd.get(), packet.bytes, std::span<const int>(&fd, fd >= 0 ? 1 : 0), milliseconds(0))) break;  // Full, or gone: then reading says so.
    connection.outbox_bytes -= packet.bytes.size();
    connection.outbox.pop_front();
  }
  const bool more = !connection.outbox.empty();
  if (more == connection.writing) return;
  connection.writing = more;
  loop->change(connection.fd.get(), more ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void StoreServer::Impl::send(StoreActions::Send& send) {
  const auto found = connections.find(send.to);
  if (found == connections.end()) return answer_peer(send.to, send.message);
  const auto connection = found->second;
  std::string bytes = send.message.SerializeAsString();
  connection->outbox_bytes += bytes.size();
  connection->outbox.push_back({std::move(bytes), send.attach});
  if (!connection->writing) flush(*connection);
  if (connection->outbox_bytes > kOutboxBytesMax) {
    loop->post([self = weak_from_this(), id = send.to] {
      if (const auto store = self.lock()) store->end(id, "it does not read what it is told");
    });
  }
}

void StoreServer::Impl::carry_out(StoreActions actions) {
  for (const SpillPlace& one : actions.discard) disk->discard(one);
  for (const StoreActions::Spill& one : actions.spill) spill(one);
  if (!actions.actors.empty()) tell_actors(actions.actors, false);
  for (StoreActions::Send& one : actions.send) send(one);
  for (const StoreActions::Home& one : actions.home) home(one);
  for (const ArenaKey& key : actions.close) memory.erase(key);
  for (const StoreActions::Restore& one : actions.restore) restore(one);
  give_rooms();
  for (const StoreActions::Cut& cut : actions.cut) end(cut.client, cut.why);
  tick();
  note_usage();
}

void StoreServer::Impl::tell_actors(const std::vector<ActorId>& changed, bool all) {
  if (!actors_told) return;
  protocol::HoldActors message;
  message.set_all(all);
  message.set_sequence(++actors_sequence);
  for (const ActorId& actor : changed) (table.holds_actor(actor) ? message.add_held() : message.add_released())->assign(raw(actor));
  actors_told(message);
}

void StoreServer::Impl::note_usage() {
  bytes_used = table.bytes_used();
  spilled = table.spilled();
  spare = table.spare_bytes();
  objects = static_cast<int64_t>(table.objects());
}

void StoreServer::Impl::tick() {
  const auto next = closed ? std::nullopt : table.next_tick();
  if (next == timer_at) return;
  if (timer != 0) loop->cancel_timer(std::exchange(timer, 0));
  timer_at = next;
  if (!next) return;
  timer = loop->add_timer(*next, [self = weak_from_this()] {
    const auto store = self.lock();
    if (!store || store->closed) return;
    store->timer = 0;
    store->timer_at.reset();
    store->carry_out(store->table.on_tick(store->clock.now()));
  });
}

// ---- other nodes ask ----

void StoreServer::Impl::answer_peer(StoreSession id, const protocol::FromStore& message) {
  if (message.kind_case() != protocol::FromStore::kLocated) return;  // The rest concerns writers and mappings.
  auto question = peer_questions.extract({id, message.located().request()});
  if (question.empty()) return;
  if (message.located().error_code() != 0) {
    question.mapped()(make_error(error_code_from(int64_t{message.located().error_code()}), message.located().error()));
  } else {
    question.mapped()(message.located().SerializeAsString());
  }
}

// A chunk of one that is on its way here: when it has come.
void StoreServer::Impl::read_coming(Fetch& fetch, int64_t offset, int64_t bytes, PeerAnswer answer) {
  const bool known = fetch.bytes >= 0;
  if (offset < 0 || offset % kStoreChunkBytes != 0 || bytes <= 0 || (known && (offset >= fetch.bytes || bytes != std::min(kStoreChunkBytes, fetch.bytes - offset)))) {
    return answer(make_error(ErrorCode::kInvalidArgument, fmt::format("{} bytes from {} of an object on its way are no chunk of it", bytes, offset)));
  }
  if (fetch.memory && fetch.have[static_cast<size_t>(offset / kStoreChunkBytes)]) return answer(chunk_of(fetch.chunk(offset)));
  fetch.askers[offset].push_back(std::move(answer));
}

void StoreServer::Impl::read_object(const ObjectKey& key, int64_t offset, int64_t bytes, PeerAnswer answer) {
  if (const auto coming = fetches.find(key); coming != fetches.end()) return read_coming(coming->second, offset, bytes, std::move(answer));
  const auto place = table.find(key);
  if (!place) return answer(make_error(ErrorCode::kObjectLost, fmt::format("object {} is not on node {} any more", to_string(key), options.node_name)));
  if (offset < 0 || bytes <= 0 || bytes > kStoreChunkBytes || offset > place->bytes - bytes) {
    return answer(make_error(ErrorCode::kInvalidArgument, fmt::format("object {} has {} bytes; {} from {} were asked", to_string(key), place->bytes, bytes, offset)));
  }
  if (place->disk) {  // From there: it need not come back into memory for another node.
    return disk->read_part(*place->disk, offset, bytes, [self = weak_from_this(), to = loop.get(), answer = std::move(answer)](Result<std::string> part) {
      const auto held = std::make_shared<Result<std::string>>(std::move(part));
      to->post([self, held, answer] {
        if (const auto store = self.lock(); store && !store->closed) answer(std::move(*held));
      });
    });
  }
  const auto found = memory.find(place->arena);
  if (found == memory.end()) return answer(make_error(ErrorCode::kInternal, "an object without memory"));
  answer(chunk_of({reinterpret_cast<const char*>(found->second.mapping->data()) + place->offset + offset, static_cast<size_t>(bytes)}));
}

// ---- disk ----

void StoreServer::Impl::spill(const StoreActions::Spill& job) {
  const auto found = memory.find(job.arena);
  const auto done = [self = weak_from_this(), to = loop.get(), job](Result<SpillSums> sums) {
    to->post([self, job, sums = std::move(sums)]() mutable {
      const auto store = self.lock();
      if (!store || store->closed) return;
      store->log_spilling(sums);
      store->carry_out(store->table.on_spilled(store->clock.now(), job, std::move(sums)));
    });
  };
  if (found == memory.end()) return done(make_error(ErrorCode::kInternal, "an object without memory"));
  const auto progress = [self = weak_from_this(), to = loop.get()] {
    to->post([self] {
      if (const auto store = self.lock(); store && !store->closed) store->table.on_spill_progress(store->clock.now());
    });
  };
  disk->write(job, found->second.mapping, progress, done);
}

void StoreServer::Impl::log_spilling(const Result<SpillSums>& outcome) {
  if (!outcome) {
    if (!std::exchange(disk_fails, true)) log::warn("objects", "objects cannot be spilled to disk; they stay in memory", {{"error", outcome.error().message}});
    return;
  }
  disk_fails = false;
  if (!std::exchange(has_spilled, true)) {
    log::info("objects", "the object store is full: objects go to disk", {{"folder", disk->file().folder().string()}, {"limit", options.limits.spill_bytes_max}});
  }
}

void StoreServer::Impl::restore(const StoreActions::Restore& job) {
  const auto done = [self = weak_from_this(), to = loop.get(), job](Result<void> outcome) {
    to->post([self, job, outcome = std::move(outcome)]() mutable {
      const auto store = self.lock();
      if (!store || store->closed) return;
      if (!outcome) log::warn("objects", "a spilled object cannot be brought back", {{"object", to_string(job.key)}, {"error", outcome.error().message}});
      store->carry_out(store->table.on_restored(store->clock.now(), job.key, job.arena, std::move(outcome)));
    });
  };
  auto mapping = own_memory(job.arena, job.from.bytes);
  if (!mapping) return done(make_error(std::move(mapping).error()));
  disk->read(job.from, *mapping, done);
}

// An arena that is kept warm, or a new one.
Result<std::shared_ptr<Mapping>> StoreServer::Impl::own_memory(uint64_t arena, int64_t bytes) {
  const ArenaKey key{kOwnWriter, arena};
  if (const auto kept = memory.find(key); kept != memory.end()) return kept->second.mapping;
  auto made = make_arena(static_cast<size_t>(bytes));
  if (!made) return make_error(std::move(made).error());
  return memory.try_emplace(key, Memory{std::move(made->fd), made->mapping}).first->second.mapping;
}

// ---- objects of other nodes ----

void StoreServer::Impl::home(const StoreActions::Home& home) {
  using What = StoreActions::Home::What;
  if (home.what == What::kFetch) return fetch(home.key, home.address, home.claim);
  protocol::ToStore message;
  const protocol::ObjectName name = to_message(home.key);
  if (home.what == What::kClaim) {  // Counted once more for the claim, and once less.
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

void StoreServer::Impl::fetch(const ObjectKey& key, const std::string& address, bool claim) {
  Fetch& fetch = fetches[key];
  fetch.serial = next_fetch++;
  fetch.address = address;
  fetch.progress = clock.now();
  peers->acquire(address, key, claim, [self = weak_from_this(), key, address, serial = fetch.serial](Result<Acquired> acquired) {
    const auto store = self.lock();
    if (!store || store->closed) return;
    Fetch* here = store->find_fetch(key, serial);
    if (here == nullptr) return;
    if (!acquired) return store->finish_fetch(key, make_error(cannot_be_had(key, address, acquired.error())));
    here->bytes = acquired->bytes;
    here->connection = acquired->connection;
    if (acquired->source != store->options.address) here->source = acquired->source;
    store->carry_out(store->table.reserve_copy(store->clock.now(), key, acquired->bytes));
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

// Warm memory is read into as it is, fresh memory of a large object is written.
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

// Asks for the next chunks: of the node that the home named, while that one gives them, else of the home.
void StoreServer::Impl::read_on(const ObjectKey& key) {
  const auto found = fetches.find(key);
  if (found == fetches.end()) return;
  const uint64_t serial = found->second.serial;
  while (true) {
    Fetch* fetch = find_fetch(key, serial);  // An answer may come at once.
    if (fetch == nullptr || fetch->pausing || fetch->under_way >= kReadsAhead || fetch->wanted.empty()) return;
    if (fetch->source.empty() && fetch->connection != peers->connection_number(fetch->address)) return acquire_again(key, *fetch);
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

void StoreServer::Impl::came(const ObjectKey& key, Fetch& fetch, int64_t offset, const std::shared_ptr<net::ReplyRoom>& chunk) {
  if (!fetch.fill) return arrived(key, fetch, offset, chunk->bytes);
  filler.write(fetch.fill, offset, chunk->bytes, chunk, [self = weak_from_this(), to = loop.get(), key, serial = fetch.serial, offset, chunk](Result<void> written) {
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
  if (!at_home) {  // Its home has it.
    if (!fetch.source.empty()) log::info("objects", "an object is read at its home: the node that had a copy failed", {{"object", to_string(key)}, {"node", fetch.source}, {"error", error.message}});
    fetch.source.clear();
    return read_on(key);
  }
  const bool for_good = error.code == ErrorCode::kObjectLost || error.code == ErrorCode::kPermissionDenied || error.code == ErrorCode::kInvalidArgument;
  if (for_good || clock.now() - fetch.progress > options.resume_patience) return finish_fetch(key, make_error(cannot_be_had(key, fetch.address, error)));
  if (std::exchange(fetch.pausing, true)) return;
  log::info("objects", "an object was cut off on its way; it goes on where it stopped", {{"object", to_string(key)}, {"node", fetch.address}, {"error", error.message}});
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

// The connection to the home was lost, and with it our reference there.
void StoreServer::Impl::acquire_again(const ObjectKey& key, Fetch& fetch) {
  fetch.pausing = true;
  peers->acquire(fetch.address, key, false, [self = weak_from_this(), key, serial = fetch.serial](Result<Acquired> acquired) {
    const auto store = self.lock();
    Fetch* here = !store || store->closed ? nullptr : store->find_fetch(key, serial);
    if (here == nullptr) return;
    if (acquired) {
      here->connection = acquired->connection;
      here->pausing = false;
      return store->read_on(key);
    }
    const bool lost = acquired.error().code == ErrorCode::kObjectLost || acquired.error().code == ErrorCode::kPermissionDenied;
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
    if (fetch.mapped().bytes >= 0) {  // It is counted there.
      protocol::ToStore release;
      *release.mutable_release()->mutable_name() = to_message(key);
      peers->tell(fetch.mapped().address, std::move(release));
    }
    for (const auto& [offset, askers] : fetch.mapped().askers) {
      for (const auto& answer : askers) answer(make_error(ErrorCode::kUnavailable, fmt::format("node {} could not get object {} itself", options.node_name, to_string(key))));
    }
  }
  carry_out(table.on_fetched(clock.now(), key, std::move(outcome)));
}

// ---- life ----

StoreServer::StoreServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<StoreServer>> StoreServer::create(StoreServerOptions options, const Clock& clock, Random& random) {
  auto impl = std::make_shared<Impl>(std::move(options), clock, random);
  auto loop = net::IoLoop::create("volador-store");
  if (!loop) return make_error(std::move(loop).error());
  impl->loop = std::move(*loop);
  std::unique_ptr<StoreServer> server(new StoreServer(impl));
  if (!impl->options.credentials.certificate_pem.empty()) {
    auto tls = security::TlsContext::create(impl->options.credentials);
    if (!tls) return make_error(std::move(tls).error());
    impl->tls = std::move(*tls);
  }
  if (impl->options.limits.spill_bytes_max > 0) {
    auto file = SpillFile::create(impl->options.spill_folder, impl->options.node);
    if (!file) return make_error(std::move(file).error());
    if ((*file)->is_in_memory()) {
      log::warn("objects", "objects are spilled to a folder that lies in memory itself; name one on a disk (--object-spill-directory)", {{"folder", impl->options.spill_folder.string()}});
    }
    impl->disk = std::make_unique<SpillIo>(std::move(*file));
  }
  auto listener = net::listen_unix(impl->options.socket.string(), SOCK_SEQPACKET);
  if (!listener) return make_error(std::move(listener).error());
  impl->listener = std::make_shared<Impl::Listener>();
  impl->listener->store = impl;
  impl->listener->fd = std::move(*listener);

  PeerEvents events;
  Impl* const store = impl.get();  // The peers end before it.
  events.spoil = impl->options.spoil;
  events.connected = [store](net::CallerId caller, const std::string& address) {
    const StoreSession id{store->next_client++};
    store->peer_clients.emplace(caller, id);
    store->table.on_connected(id, 0);
    protocol::ToStore hello;
    hello.mutable_hello()->set_who("another node");
    hello.mutable_hello()->set_address(address);
    store->carry_out(store->table.on_message(store->clock.now(), id, hello));
  };
  events.gone = [store](net::CallerId caller) {
    const auto client = store->peer_clients.extract(caller);
    if (client.empty()) return;
    std::erase_if(store->peer_questions, [&](const auto& one) { return one.first.first == client.mapped(); });
    store->carry_out(store->table.on_gone(store->clock.now(), client.mapped()));
  };
  events.message = [store](net::CallerId caller, const protocol::ToStore& message, std::function<void(Result<std::string>)> answer) {
    const auto client = store->peer_clients.find(caller);
    if (client == store->peer_clients.end()) return answer(make_error(ErrorCode::kUnavailable, "not attached"));
    protocol::ToStore checked = message;
    switch (checked.kind_case()) {
      case protocol::ToStore::kAcquire:
        if (id_from_raw<NodeId>(checked.acquire().name().node_id()) != store->options.node) {
          return answer(make_error(ErrorCode::kObjectLost, fmt::format("node {} is another one than the object's", store->options.node_name)));
        }
        checked.mutable_acquire()->set_request(store->next_question++);
        store->peer_questions[{client->second, checked.acquire().request()}] = std::move(answer);
        break;
      case protocol::ToStore::kRelease:
      case protocol::ToStore::kFree:
      case protocol::ToStore::kLend: answer(std::string()); break;
      default: return answer(make_error(ErrorCode::kInvalidArgument, "expected acquire, release, free or lend"));
    }
    store->carry_out(store->table.on_message(store->clock.now(), client->second, checked));
  };
  events.read = [store](const ObjectKey& key, int64_t offset, int64_t bytes, Impl::PeerAnswer answer) { store->read_object(key, offset, bytes, std::move(answer)); };
  impl->peers = std::make_unique<StorePeers>(*impl->loop, impl->options.node, random, impl->tls, std::move(events));
  impl->peers->set_own_address(impl->options.address);
  VOLADOR_TRY(impl->loop->watch(impl->listener->fd.get(), EPOLLIN, impl->listener));
  return server;
}

StoreServer::~StoreServer() {
  const auto impl = impl_;
  if (!impl->loop) return;
  impl->loop->run([&] {
    impl->closed = true;
    if (impl->timer != 0) impl->loop->cancel_timer(std::exchange(impl->timer, 0));
    if (impl->listener) {
      impl->loop->unwatch(impl->listener->fd.get());
      impl->listener->fd.reset();
      ::unlink(impl->options.socket.c_str());
    }
    for (auto& [id, connection] : impl->connections) {
      impl->loop->unwatch(connection->fd.get());
      connection->fd.reset();
    }
    impl->connections.clear();
    if (impl->peers) impl->peers->close();
    impl->memory.clear();
  });
  impl->disk.reset();
  impl->filler.close();
  impl->loop.reset();
  impl->peers.reset();
}

void StoreServer::adopt(net::UniqueFd connection) {
  auto held = std::make_shared<net::UniqueFd>(std::move(connection));
  impl_->loop->post([impl = impl_, held] {
    if (!impl->closed) impl->peers->adopt(std::move(*held));
  });
}

void StoreServer::set_credentials(const security::Credentials& credentials) {
  if (!impl_->tls) return;
  const auto renewed = impl_->tls->reload(credentials);
  if (!renewed) log::warn("objects", "the store's renewed certificate does not work; the old one stays", {{"error", renewed.error().message}});
}

void StoreServer::revoke(const protocol::RevokedTokens& tokens) const {
  if (!impl_->tls) return;
  for (const std::string& id : tokens.token_ids()) impl_->tls->revocations().revoke_token(id);
  impl_->loop->post([impl = impl_] {
    if (!impl->closed) impl->peers->check_peers();
  });
}

int64_t StoreServer::drop_spares() const {
  const int64_t bytes = impl_->spare;
  if (bytes > 0) {
    impl_->loop->post([impl = impl_] {
      if (!impl->closed) impl->carry_out(impl->table.drop_spares());
    });
  }
  return bytes;
}

void StoreServer::on_actors(std::function<void(const protocol::HoldActors&)> tell) {
  impl_->loop->run([&] { impl_->actors_told = std::move(tell); });
}

void StoreServer::tell_actors() const {
  impl_->loop->post([impl = impl_] {
    if (!impl->closed) impl->tell_actors(impl->table.actors(), true);
  });
}

StoreServer::Usage StoreServer::usage() const { return {impl_->bytes_used, impl_->bytes_max, impl_->objects, impl_->spilled, impl_->options.limits.spill_bytes_max}; }

std::vector<StoreTable::Row> StoreServer::rows(size_t rows_max) const {
  std::vector<StoreTable::Row> rows;
  impl_->loop->run([&] { rows = impl_->table.rows(rows_max); });
  return rows;
}

std::vector<StoreTable::Group> StoreServer::groups(size_t groups_max) const {
  std::vector<StoreTable::Group> groups;
  impl_->loop->run([&] { groups = impl_->table.groups(groups_max); });
  return groups;
}

}  // namespace volador::worker
