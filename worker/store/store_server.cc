#include "worker/store/store_server_impl.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
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
#include "worker/store/spill_io.h"
#include "worker/store/store_peers.h"

namespace volador::worker {
namespace {

using std::chrono::milliseconds;

constexpr int kStoreMessagesATurn = 64;
constexpr size_t kOutboxBytesMax = size_t{16} << 20;  // Per process; beyond it the process is disconnected.
constexpr size_t kConnectionsMax = 10'000;

}  // namespace

// ---- processes of this node ----

void StoreServer::Impl::accept() {
  while (true) {
    net::UniqueFd fd(::accept4(listener->fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;
    ucred peer{};
    socklen_t length = sizeof peer;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
        (peer.uid != ::geteuid() && peer.uid != 0) || connections.size() >= kConnectionsMax)
      continue;
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
      memory.try_emplace({connection.writer, parsed.add_arena().arena()},
                         Memory{std::move(fds[0]), std::move(*mapping)});
    }
    apply_actions(table.on_message(clock.now(), id, parsed));
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
  apply_actions(table.on_gone(clock.now(), id));
}

void StoreServer::Impl::flush(Connection& connection) {
  while (!connection.outbox.empty()) {
    const Packet& packet = connection.outbox.front();
    int fd = -1;
    if (packet.arena) {
      const auto found = memory.find(*packet.arena);
      if (found != memory.end()) fd = found->second.fd.get();
    }
    // Full or closed: detected by reading.
    if (!net::send_message(connection.fd.get(), packet.bytes, std::span<const int>(&fd, fd >= 0 ? 1 : 0),
                           milliseconds(0)))
      break;
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

void StoreServer::Impl::apply_actions(StoreActions actions) {
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
  for (const ActorId& actor : changed)
    (table.holds_actor(actor) ? message.add_held() : message.add_released())->assign(raw(actor));
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
    store->apply_actions(store->table.on_tick(store->clock.now()));
  });
}

// ---- disk ----

void StoreServer::Impl::spill(const StoreActions::Spill& job) {
  const auto found = memory.find(job.arena);
  const auto done = [self = weak_from_this(), to = loop.get(), job](Result<SpillSums> sums) {
    to->post([self, job, sums = std::move(sums)]() mutable {
      const auto store = self.lock();
      if (!store || store->closed) return;
      store->log_spilling(sums);
      store->apply_actions(store->table.on_spilled(store->clock.now(), job, std::move(sums)));
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
    if (!std::exchange(disk_fails, true))
      log::warn("objects", "objects cannot be spilled to disk; they stay in memory",
                {{"error", outcome.error().message}});
    return;
  }
  disk_fails = false;
  if (!std::exchange(has_spilled, true)) {
    log::info("objects", "the object store is full: objects go to disk",
              {{"folder", disk->file().folder().string()}, {"limit", options.limits.spill_bytes_max}});
  }
}

void StoreServer::Impl::restore(const StoreActions::Restore& job) {
  const auto done = [self = weak_from_this(), to = loop.get(), job](Result<void> outcome) {
    to->post([self, job, outcome = std::move(outcome)]() mutable {
      const auto store = self.lock();
      if (!store || store->closed) return;
      if (!outcome)
        log::warn("objects", "a spilled object cannot be brought back",
                  {{"object", to_string(job.key)}, {"error", outcome.error().message}});
      store->apply_actions(store->table.on_restored(store->clock.now(), job.key, job.arena, std::move(outcome)));
    });
  };
  auto mapping = own_memory(job.arena, job.from.bytes);
  if (!mapping) return done(make_error(std::move(mapping).error()));
  disk->read(job.from, *mapping, done);
}

// Returns a warm arena or a new one.
Result<std::shared_ptr<Mapping>> StoreServer::Impl::own_memory(uint64_t arena, int64_t bytes) {
  const ArenaKey key{kOwnWriter, arena};
  if (const auto kept = memory.find(key); kept != memory.end()) return kept->second.mapping;
  auto made = make_arena(static_cast<size_t>(bytes));
  if (!made) return make_error(std::move(made).error());
  return memory.try_emplace(key, Memory{std::move(made->fd), made->mapping}).first->second.mapping;
}

// ---- lifetime ----

StoreServer::StoreServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<StoreServer>> StoreServer::create(StoreServerOptions options, const Clock& clock,
                                                         Random& random) {
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
      log::warn(
          "objects",
          "objects are spilled to a folder that lies in memory itself; name one on a disk (--object-spill-directory)",
          {{"folder", impl->options.spill_folder.string()}});
    }
    impl->disk = std::make_unique<SpillIo>(std::move(*file));
  }
  auto listener = net::listen_unix(impl->options.socket.string(), SOCK_SEQPACKET);
  if (!listener) return make_error(std::move(listener).error());
  impl->listener = std::make_shared<Impl::Listener>();
  impl->listener->store = impl;
  impl->listener->fd = std::move(*listener);

  PeerEvents events;
  Impl* const store = impl.get();  // The peers are destroyed before it.
  events.spoil = impl->options.spoil;
  events.connected = [store](net::CallerId caller, const std::string& address) {
    const StoreSession id{store->next_client++};
    store->peer_clients.emplace(caller, id);
    store->table.on_connected(id, 0);
    protocol::ToStore hello;
    hello.mutable_hello()->set_who("another node");
    hello.mutable_hello()->set_address(address);
    store->apply_actions(store->table.on_message(store->clock.now(), id, hello));
  };
  events.gone = [store](net::CallerId caller) {
    const auto client = store->peer_clients.extract(caller);
    if (client.empty()) return;
    std::erase_if(store->peer_questions, [&](const auto& one) { return one.first.first == client.mapped(); });
    store->apply_actions(store->table.on_gone(store->clock.now(), client.mapped()));
  };
  events.message = [store](net::CallerId caller, const protocol::ToStore& message,
                           std::function<void(Result<std::string>)> answer) {
    const auto client = store->peer_clients.find(caller);
    if (client == store->peer_clients.end()) return answer(make_error(ErrorCode::kUnavailable, "not attached"));
    protocol::ToStore checked = message;
    switch (checked.kind_case()) {
      case protocol::ToStore::kAcquire:
        if (id_from_raw<NodeId>(checked.acquire().name().node_id()) != store->options.node) {
          return answer(make_error(ErrorCode::kObjectLost,
                                   fmt::format("node {} is another one than the object's", store->options.node_name)));
        }
        checked.mutable_acquire()->set_request(store->next_question++);
        store->peer_questions[{client->second, checked.acquire().request()}] = std::move(answer);
        break;
      case protocol::ToStore::kRelease:
      case protocol::ToStore::kFree:
      case protocol::ToStore::kLend:
        answer(std::string());
        break;
      default:
        return answer(make_error(ErrorCode::kInvalidArgument, "expected acquire, release, free or lend"));
    }
    store->apply_actions(store->table.on_message(store->clock.now(), client->second, checked));
  };
  events.read = [store](const ObjectKey& key, int64_t offset, int64_t bytes, Impl::PeerAnswer answer) {
    store->read_object(key, offset, bytes, std::move(answer));
  };
  events.lost = [store](const std::string& address) {
    if (!store->closed) store->home_lost(address);
  };
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

void StoreServer::adopt(net::UniqueFd connection, std::function<void()> on_proved) {
  impl_->loop->post([impl = impl_, connection = std::move(connection), on_proved = std::move(on_proved)]() mutable {
    if (!impl->closed) impl->peers->adopt(std::move(connection), std::move(on_proved));
  });
}

void StoreServer::set_credentials(const security::Credentials& credentials) {
  if (!impl_->tls) return;
  const auto renewed = impl_->tls->reload(credentials);
  if (!renewed)
    log::warn("objects", "the store's renewed certificate does not work; the old one stays",
              {{"error", renewed.error().message}});
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
      if (!impl->closed) impl->apply_actions(impl->table.drop_spares());
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

StoreServer::Usage StoreServer::usage() const {
  return {impl_->bytes_used, impl_->bytes_max, impl_->objects, impl_->spilled, impl_->options.limits.spill_bytes_max};
}

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
