// Internals of StoreServer: store_server.cc has lifetime, the node's processes and the disk; store_fetches.cc has
// objects of other nodes.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/net/channel.h"
#include "runtime/net/io_loop.h"
#include "runtime/net/unique_fd.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/random.h"
#include "runtime/security/tls_context.h"
#include "runtime/store/arena.h"
#include "worker/store/arena_filler.h"
#include "worker/store/spill_io.h"
#include "worker/store/store_peers.h"
#include "worker/store/store_server.h"

namespace volador::worker {

// Pause before the first retry of an interrupted fetch; doubles.
inline constexpr std::chrono::nanoseconds kResumePause = std::chrono::milliseconds(50);

// State of a store server.
struct StoreServer::Impl : std::enable_shared_from_this<StoreServer::Impl> {
  Impl(StoreServerOptions given, const Clock& its_clock, Random& its_random)
      : options(std::move(given)),
        clock(its_clock),
        random(its_random),
        table(options.node, options.node_name, options.limits) {
    table.set_address(options.address);
    bytes_max = options.limits.bytes_max;
  }

  struct Packet {
    std::string bytes;
    std::optional<ArenaKey> arena;  // Its descriptor is attached.
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
  struct Fetch {  // A fetch of an object of another node.
    uint64_t serial = 0;
    std::string address;         // Address of its owner node.
    std::string source;          // Node to read from; empty: the owner node.
    int64_t bytes = -1;          // Negative: unknown.
    uint64_t connection = 0;     // Connection over which the owner node counts this store.
    std::deque<int64_t> wanted;  // Offsets of chunks that are not requested now.
    std::vector<bool> have;      // Chunks that have arrived.
    int under_way = 0;
    bool pausing = false;  // After an interruption.
    std::chrono::nanoseconds pause = kResumePause;
    BootTime progress{};  // Time of the last arrival.
    std::shared_ptr<Mapping> memory;
    std::shared_ptr<const net::UniqueFd> fill;          // Fresh memory that chunks are written to; null: read in place.
    std::map<int64_t, std::vector<PeerAnswer>> askers;  // Reads of other nodes for chunks that have not arrived.

    std::span<char> chunk(int64_t offset) const {
      return {reinterpret_cast<char*>(memory->data()) + offset,
              static_cast<size_t>(std::min(kStoreChunkBytes, bytes - offset))};
    }
  };

  void accept();
  void read(Connection& connection);
  void flush(Connection& connection);
  void end(StoreSession id, const std::string& why);
  void apply_actions(StoreActions actions);
  void send(StoreActions::Send& send);
  void answer_peer(StoreSession id, const protocol::FromStore& message);
  void home(const StoreActions::Home& home);
  void refer(const ObjectKey& key, const std::string& address);
  void home_lost(const std::string& address);
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
  std::unique_ptr<SpillIo> disk;  // Null: spilling is disabled.
  ArenaFiller filler{static_cast<size_t>(kStoreChunkBytes)};
  int fills = 0;             // Number of fetches that fill fresh memory.
  bool has_spilled = false;  // The first spill was logged.
  bool disk_fails = false;   // The disk failure was logged.
  std::shared_ptr<Listener> listener;
  uint64_t next_client = 1;
  uint64_t next_question = 1;
  std::map<StoreSession, std::shared_ptr<Connection>> connections;
  std::map<net::CallerId, StoreSession> peer_clients;
  std::map<std::pair<StoreSession, uint64_t>, PeerAnswer> peer_questions;
  std::map<ArenaKey, Memory> memory;
  std::map<ObjectKey, Fetch> fetches;
  std::map<std::string, BootTime> cut_homes;  // Unreachable owner nodes of referenced objects, and since when.
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

}  // namespace volador::worker
