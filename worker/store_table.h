// The mind of a node's object store: which process wrote which object where, who refers to it, and how much room there is.
//
//   reserve ─► arena ─► put ─► (references: of processes here, of other nodes' stores, lent to answers under way) ─► none left: freed,
//   its writer uses the room again; an arena whose writer has ended goes with its last object.
//
// Objects of other nodes are copied here at the first reference and dropped after the last one; their home counts this store as one
// that refers to them.
// Pure: no clock, thread, I/O or randomness. Events in, actions out.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/clock.h"
#include "runtime/protocol/store.pb.h"
#include "runtime/result.h"
#include "runtime/store/object_key.h"

namespace volador::worker {

// One connection: of a process of this node, or of another node's store.
enum class StoreSession : uint64_t {};

// An arena of a writer; writer 0: this store's own, of copies.
struct ArenaKey {
  uint64_t writer = 0;
  uint64_t arena = 0;
  auto operator<=>(const ArenaKey&) const = default;
};

struct StoreLimits {
  int64_t bytes_max = int64_t{1} << 30;              // Of all arenas.
  std::chrono::nanoseconds room_patience = std::chrono::seconds(10);     // How long a writer waits for room.
  std::chrono::nanoseconds lend_patience = std::chrono::seconds(60);     // Until a lent reference must be claimed.
  size_t arenas_max = 4096;       // Of one writer.
  size_t waiting_max = 10'000;    // Requests for room, or for objects that have not come, of one client.
  size_t site_bytes_max = 200;
};

struct StoreActions {
  struct Send {
    StoreSession to;
    protocol::FromStore message;
    std::optional<ArenaKey> attach;  // Its descriptor goes along.
  };
  struct Home {  // To the store that an object of another node was put into.
    ObjectKey key;
    std::string address;
    enum class What : uint8_t { kFetch, kClaim, kLend, kRelease } what = What::kFetch;
    bool claim = false;  // Of kFetch.
  };
  struct Cut {
    StoreSession client;
    std::string why;
  };
  std::vector<Send> send;
  std::vector<Home> home;
  std::vector<ArenaKey> close;  // Descriptors and mappings of these can go.
  std::vector<Cut> cut;         // They broke the protocol; on_gone() follows.
};

class StoreTable {
 public:
  StoreTable(NodeId node, std::string node_name, StoreLimits limits) : node_(node), node_name_(std::move(node_name)), limits_(limits) {}

  void set_address(std::string address) { address_ = std::move(address); }

  // `writer` is random, not 0 and new. Of another node's store: 0.
  void on_connected(StoreSession client, uint64_t writer);
  StoreActions on_message(BootTime now, StoreSession client, const protocol::ToStore& message);
  StoreActions on_gone(BootTime now, StoreSession client);
  StoreActions on_tick(BootTime now);
  // When on_tick has something to do.
  std::optional<BootTime> next_tick() const;

  // A copy will take `bytes`: asks room for it, see take_rooms().
  StoreActions reserve_copy(BootTime now, const ObjectKey& key, int64_t bytes);
  // Copies for which there is room now, or the error; each once.
  std::vector<std::pair<ObjectKey, Result<uint64_t>>> take_rooms();  // The number of the arena of writer 0.
  // Where the copy will lie: the room that it got.
  void set_copy(const ObjectKey& key, uint64_t arena, int64_t bytes);
  // The copy lies in its arena from offset 0, or could not be had.
  StoreActions on_fetched(BootTime now, const ObjectKey& key, Result<void> outcome);

  // Where an object of this node lies; null: it is not here.
  struct Place {
    ArenaKey arena;
    int64_t offset = 0;
    int64_t bytes = 0;
  };
  std::optional<Place> find(const ObjectKey& key) const;

  int64_t bytes_used() const { return used_; }
  int64_t bytes_max() const { return limits_.bytes_max; }
  size_t objects() const { return objects_.size() + copies_.size(); }
  // One object, for lists.
  struct Row {
    ObjectKey key;
    int64_t bytes = 0;
    std::string site;
    std::string writer;                // Who put it.
    std::vector<std::string> holders;  // Who refers to it.
    bool copy = false;
  };
  std::vector<Row> rows(size_t rows_max) const;  // The largest ones.

  // Aborts where the parts disagree. O(everything).
  void check_invariants() const;

 private:
  struct References {
    std::map<StoreSession, int64_t> held;
    int64_t lent = 0;  // May be negative: claimed before the lending was heard of.
    BootTime lent_until{};
  };
  struct Object {
    ArenaKey arena;
    int64_t offset = 0;
    int64_t bytes = 0;
    std::string site;
    References references;
  };
  struct ArenaState {
    int64_t bytes = 0;
    size_t objects = 0;
    std::set<StoreSession> known_to;
    bool writer_gone = false;
  };
  struct Client {
    uint64_t writer = 0;
    std::string who;
    bool greeted = false;
    int64_t reserved = 0;       // Not used for an arena yet.
    uint64_t last_number = 0;   // Of its objects.
    size_t arenas = 0;
    size_t waiting = 0;
    std::set<ObjectKey> refers;
  };
  struct Wanted {  // Room.
    StoreSession client;
    uint64_t request = 0;
    int64_t bytes = 0;
    BootTime until{};
    std::optional<ObjectKey> copy;  // Instead of client and request.
  };
  struct Asked {  // An object that has not come.
    StoreSession client;
    uint64_t request = 0;
    bool claim = false;
  };
  struct Copy {
    std::string address;
    bool here = false;
    uint64_t arena = 0;
    int64_t bytes = 0;
    References references;
    std::vector<Asked> asked;
  };

  void hello(StoreSession id, Client& client, const protocol::StoreHello& message, StoreActions& actions);
  void reserve(BootTime now, StoreSession id, Client& client, const protocol::Reserve& message, StoreActions& actions);
  std::optional<std::string> add_arena(StoreSession id, Client& client, const protocol::AddArena& message);
  std::optional<std::string> drop_arena(Client& client, const protocol::DropArena& message, StoreActions& actions);
  std::optional<std::string> put(BootTime now, StoreSession id, Client& client, const protocol::PutObject& message, StoreActions& actions);
  void acquire(BootTime now, StoreSession id, const protocol::AcquireObject& message, StoreActions& actions);
  void acquire_copy(BootTime now, StoreSession id, const ObjectKey& key, const protocol::AcquireObject& message, StoreActions& actions);
  std::optional<std::string> release(StoreSession id, const ObjectKey& key, StoreActions& actions);
  void claim(BootTime now, const ObjectKey& key, References& references);
  void await_claim(BootTime now, const ObjectKey& key, References& references);
  bool awaits_claim(const ObjectKey& key) const;
  void forget_settled();
  void lend(BootTime now, const ObjectKey& key, StoreActions& actions);
  void locate(StoreSession to, uint64_t request, const ArenaKey& arena, int64_t offset, int64_t bytes, StoreActions& actions);
  static void refuse(StoreSession to, uint64_t request, const Error& error, StoreActions& actions);
  Error lost(const ObjectKey& key, const std::string& why) const;
  void grant(StoreActions& actions);
  void answer_room(const Wanted& wanted, const std::optional<Error>& error, StoreActions& actions);
  Error full(int64_t bytes) const;
  static bool is_unused(const References& references) { return references.held.empty() && references.lent <= 0; }
  void free_object(const ObjectKey& key, StoreActions& actions);
  void drop_copy(const ObjectKey& key, StoreActions& actions);
  void close_arena(const ArenaKey& key, StoreActions& actions);
  std::string who(StoreSession client) const;

  const NodeId node_;
  const std::string node_name_;
  const StoreLimits limits_;
  std::string address_;
  int64_t used_ = 0;  // Arenas and reservations.
  uint64_t next_copy_ = 1;
  std::map<StoreSession, Client> clients_;
  std::unordered_map<uint64_t, StoreSession> writers_;  // Connected ones.
  std::unordered_map<ObjectKey, Object> objects_;
  std::unordered_map<ObjectKey, Copy> copies_;
  std::unordered_map<ObjectKey, std::vector<Asked>> expected_;  // Of this node; their writer has not said that they are there.
  std::map<ArenaKey, ArenaState> arenas_;
  std::deque<Wanted> wanted_;  // By arrival, so by deadline too.
  std::vector<std::pair<ObjectKey, Result<uint64_t>>> rooms_;
  std::deque<std::pair<BootTime, ObjectKey>> lent_;  // By deadline; what is settled meanwhile is passed over.
};

}  // namespace volador::worker
