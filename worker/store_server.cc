#include "worker/store_server.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

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
#include "worker/spill_io.h"
#include "worker/store_peers.h"

namespace volador::worker {
namespace {

using std::chrono::milliseconds;

constexpr int kStoreMessagesATurn = 64;
constexpr size_t kOutboxBytesMax = size_t{16} << 20;  // To one process; one that does not read so much is cut off.
constexpr size_t kConnectionsMax = 10'000;
constexpr int kReadsAhead = 4;  // Of one object that is fetched.

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
  struct Fetch {  // One object of another node on its way.
    std::string address;
    int64_t bytes = 0;
    int64_t asked = 0;    // Up to here.
    int64_t arrived = 0;  // So many.
    int under_way = 0;
    bool failed = false;
    std::shared_ptr<Mapping> memory;
  };
  using PeerAnswer = std::function<void(Result<std::string>)>;

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
  void finish_fetch(const ObjectKey& key, Result<void> outcome);
  void read_object(const ObjectKey& key, int64_t offset, int64_t bytes, PeerAnswer answer);
  void spill(const StoreActions::Spill& job);
  void restore(const StoreActions::Restore& job);
  void log_spilling(const Result<SpillSums>& outcome);
  void tick();
  void note_usage();

  const StoreServerOptions options;
  const Clock& clock;
  Random& random;
  StoreTable table;
  std::unique_ptr<net::IoLoop> loop;
  std::shared_ptr<security::TlsContext> tls;
  std::unique_ptr<StorePeers> peers;
  std::unique_ptr<SpillIo> disk;  // Null: nothing is spilled.
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
  net::IoLoop::TimerId timer = 0;
  std::optional<BootTime> timer_at;
  bool closed = false;
  std::atomic<int64_t> bytes_used{0};
  std::atomic<int64_t> bytes_max{0};
  std::atomic<int64_t> objects{0};
  std::atomic<int64_t> spilled{0};
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
  for (StoreActions::Send& one : actions.send) send(one);
  for (const StoreActions::Home& one : actions.home) home(one);
  for (const ArenaKey& key : actions.close) memory.erase(key);
  for (const StoreActions::Restore& one : actions.restore) restore(one);
  give_rooms();
  for (const StoreActions::Cut& cut : actions.cut) end(cut.client, cut.why);
  tick();
  note_usage();
}

void StoreServer::Impl::note_usage() {
  bytes_used = table.bytes_used();
  spilled = table.spilled();
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

void StoreServer::Impl::read_object(const ObjectKey& key, int64_t offset, int64_t bytes, PeerAnswer answer) {
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
  answer(std::string(reinterpret_cast<const char*>(found->second.mapping->data()) + place->offset + offset, static_cast<size_t>(bytes)));
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
  auto arena = make_arena(static_cast<size_t>(job.from.bytes));
  if (!arena) return done(make_error(std::move(arena).error()));
  memory.try_emplace({0, job.arena}, Memory{std::move(arena->fd), arena->mapping});
  disk->read(job.from, arena->mapping, done);
}

// ---- objects of other nodes ----

void StoreServer::Impl::home(const StoreActions::Home& home) {
  using What = StoreActions::Home::What;
  if (home.what == What::kFetch) return fetch(home.key, home.address, home.claim);
  protocol::ToStore message;
  const protocol::ObjectName name = to_message(home.key);
  if (home.what == What::kClaim) {  // Counted once more for the claim, and once less.
    peers->acquire(home.address, home.key, true, [](const Result<int64_t>&) {});
    *message.mutable_release()->mutable_name() = name;
  } else if (home.what == What::kLend) {
    *message.mutable_lend()->mutable_name() = name;
  } else if (home.what == What::kFree) {
    *message.mutable_free()->mutable_name() = name;
  } else {
    *message.mutable_release()->mutable_name() = name;
  }
  peers->tell(home.address, std::move(message));
}

void StoreServer::Impl::fetch(const ObjectKey& key, const std::string& address, bool claim) {
  peers->acquire(address, key, claim, [self = weak_from_this(), key, address](Result<int64_t> bytes) {
    const auto store = self.lock();
    if (!store || store->closed) return;
    if (!bytes) {
      const Error& error = bytes.error();
      const bool unreachable = error.code != ErrorCode::kObjectLost && error.code != ErrorCode::kPermissionDenied;
      store->finish_fetch(key, unreachable ? make_error(ErrorCode::kObjectLost, fmt::format("object {} cannot be had from its node at {}: {}", to_string(key), address, error.message))
                                           : make_error(error));
      return;
    }
    Fetch& fetch = store->fetches[key];
    fetch.address = address;
    fetch.bytes = *bytes;
    store->carry_out(store->table.reserve_copy(store->clock.now(), key, *bytes));
  });
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
    auto arena = make_arena(static_cast<size_t>(std::max<int64_t>(fetch.bytes, 1)));
    table.set_copy(key, *room, fetch.bytes);
    if (!arena) {
      loop->post([self = weak_from_this(), key = key, error = arena.error()] {
        if (const auto store = self.lock(); store && !store->closed) store->finish_fetch(key, make_error(error));
      });
      continue;
    }
    fetch.memory = arena->mapping;
    memory.try_emplace({0, *room}, Memory{std::move(arena->fd), arena->mapping});
    read_on(key);
  }
}

void StoreServer::Impl::read_on(const ObjectKey& key) {
  const auto found = fetches.find(key);
  if (found == fetches.end()) return;
  Fetch& fetch = found->second;
  while (!fetch.failed && fetch.under_way < kReadsAhead && fetch.asked < fetch.bytes) {
    const int64_t offset = fetch.asked;
    const int64_t bytes = std::min(kStoreChunkBytes, fetch.bytes - offset);
    fetch.asked += bytes;
    ++fetch.under_way;
    peers->read(fetch.address, key, offset, bytes, [self = weak_from_this(), key, offset, bytes](Result<std::string> chunk) {
      const auto store = self.lock();
      if (!store || store->closed) return;
      const auto here = store->fetches.find(key);
      if (here == store->fetches.end()) return;
      Fetch& into = here->second;
      --into.under_way;
      if (chunk && chunk->size() != static_cast<size_t>(bytes)) chunk = make_error(ErrorCode::kInternal, fmt::format("{} bytes came instead of {}", chunk->size(), bytes));
      if (!chunk) {
        if (std::exchange(into.failed, true)) return;
        return store->finish_fetch(key, make_error(ErrorCode::kObjectLost, fmt::format("object {} was lost on its way from the node at {}: {}", to_string(key), into.address, chunk.error().message)));
      }
      std::memcpy(into.memory->data() + offset, chunk->data(), chunk->size());
      into.arrived += bytes;
      if (into.arrived == into.bytes) return store->finish_fetch(key, {});
      store->read_on(key);
    });
  }
}

void StoreServer::Impl::finish_fetch(const ObjectKey& key, Result<void> outcome) {
  auto fetch = fetches.extract(key);
  if (!outcome && !fetch.empty()) {  // It is counted there.
    protocol::ToStore release;
    *release.mutable_release()->mutable_name() = to_message(key);
    peers->tell(fetch.mapped().address, std::move(release));
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
  events.connected = [store](net::CallerId caller) {
    const StoreSession id{store->next_client++};
    store->peer_clients.emplace(caller, id);
    store->table.on_connected(id, 0);
    protocol::ToStore hello;
    hello.mutable_hello()->set_who("another node");
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
