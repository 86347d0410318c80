// State machine of a node's object store: location, owner and references of each object, and the available room.
//
//   reserve ─► arena ─► put ─► (references: of processes here, of other stores, transferred in replies) ─► none: freed
//   The writer reuses the room; an arena whose writer has ended is closed with its last object.
//
// When there is no room, the least recently used arenas are emptied (store_table_spill.cc):
//
//   arena:   asking (may its objects leave? readers answer) ─► writing (to disk) ─► emptied (writer drops it) ─► closed
//   object:  in memory ─► also on disk ─► on disk only ─► (a process reads it) ─► in an arena of the store, and on disk
//
// An object leaves memory only when no process knows its place: each process forgets the place on request, unless it is
// reading the object, and requests the place again before the next read.
//
// Objects of other nodes are copied here at the first reference and dropped after the last one; their owner node counts
// this store as a holder. A large object requested by many nodes is distributed as a tree: the owner node names a
// source with a copy (possibly incomplete) to each of them, so that no node sends it more than kTreeWidth times.
//
// References inside an object live as long as the object (store_table_contents.cc): objects are counted like those of a
// process, actor handles by the head, which is notified of the first object with a handle on an actor and of the last
// one's end. A copy does the same for the references that its owner node lists: objects of third nodes are counted
// there, and their bytes are fetched when a process here references them.
//
// References of a disconnected node are kept for kReturnPatience, so that it can reconnect and claim them.
// Pure: no clock, thread, I/O or randomness. Events in, actions out.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/clock.h"
#include "runtime/protocol/store.pb.h"
#include "runtime/result.h"
#include "runtime/store/free_list.h"
#include "runtime/store/object_key.h"
#include "runtime/store/object_store.h"

namespace volador::worker {

// A connection of a process of this node or of another node's store.
enum class StoreSession : uint64_t {};
inline constexpr StoreSession kContainedRefs{0};  // Pseudo-session that owns references held inside stored objects.

// Smaller objects are always read at their owner node.
inline constexpr int64_t kTreeBytesMin = int64_t{8} << 20;
inline constexpr int kTreeWidth = 2;
inline constexpr std::chrono::seconds kReturnPatience{5};
inline constexpr int kNamedMax = 500'000;  // Contained references per frame; others live as long as the owner node.
inline constexpr uint64_t kOwnWriter = 0;  // Writer number of this store's own arenas, for copies.
// Writer and number of an arena.
struct ArenaKey {
  uint64_t writer = 0;
  uint64_t arena = 0;
  auto operator<=>(const ArenaKey&) const = default;
};

// Limits and timeouts of a StoreTable.
struct StoreLimits {
  int64_t bytes_max = int64_t{1} << 30;                               // Total of all arenas.
  std::chrono::nanoseconds room_patience = std::chrono::seconds(10);  // How long a writer waits for room.
  // Until a transferred reference must be accepted.
  std::chrono::nanoseconds lend_patience = std::chrono::seconds(60);
  size_t arenas_max = 4096;     // Per writer.
  size_t waiting_max = 10'000;  // Requests for room, or for objects that have not arrived, per client.
  size_t site_bytes_max = 200;
  size_t contents_max = kObjectContentsMax;
  int64_t spill_bytes_max = 0;  // On disk; 0: spilling is disabled.
  // How long to wait for a process's answer to Reclaim.
  std::chrono::nanoseconds yield_patience = std::chrono::milliseconds(500);
  std::chrono::nanoseconds spill_pause = std::chrono::seconds(1);      // After the disk failed or was full.
  std::chrono::nanoseconds spare_patience = std::chrono::seconds(10);  // For memory of dropped copies; 0: none.
  int64_t spare_bytes_min = int64_t{1} << 20;                          // Smaller arenas are closed at once.
  size_t spares_max = 64;
};

// CRC-32C of each written chunk, in order.
using SpillSums = std::shared_ptr<const std::vector<uint32_t>>;

// A range of the spill file.
struct SpillPlace {
  int64_t offset = 0;
  int64_t bytes = 0;
  SpillSums sums;
};

// Actions that the shell must apply.
struct StoreActions {
  struct Send {
    StoreSession to;
    protocol::FromStore message;
    std::optional<ArenaKey> attach;  // Its descriptor is attached.
  };
  struct Home {  // Message to the owner node's store of an object.
    ObjectKey key;
    std::string address;
    // kFreeCopy: to a store with a copy of an object of this node.
    // kRefer: registers as a holder without a copy.
    enum class What : uint8_t { kFetch, kRefer, kClaim, kLend, kRelease, kFree, kFreeCopy } what = What::kFetch;
    bool claim = false;  // For kFetch.
  };
  struct Cut {
    StoreSession client;
    std::string why;
  };
  struct Spill {  // Write the object; on_spilled() follows.
    ObjectKey key;
    ArenaKey arena;
    int64_t offset = 0;  // Offset in the arena.
    SpillPlace to;       // Without sums.
  };
  struct Restore {  // Create arena `arena` of writer 0 and read into it; on_restored() follows.
    ObjectKey key;
    uint64_t arena = 0;
    SpillPlace from;
  };
  std::vector<Send> send;
  std::vector<Home> home;
  std::vector<SpillPlace> discard;  // Apply before the others: the space may be reused at once.
  std::vector<Spill> spill;
  std::vector<Restore> restore;
  std::vector<ArenaKey> close;  // Descriptors and mappings to release.
  std::vector<Cut> cut;         // Clients that violated the protocol; on_gone() follows.
  std::vector<ActorId> actors;  // Actors whose holds_actor() changed. Report before sending messages.
};

// State machine of the object store. Not thread safe.
class StoreTable {
 public:
  StoreTable(NodeId node, std::string node_name, StoreLimits limits);

  void set_address(std::string address) { address_ = std::move(address); }

  // `writer` is random, not 0 and unique. 0 for another node's store.
  void on_connected(StoreSession client, uint64_t writer);
  StoreActions on_message(BootTime now, StoreSession client, const protocol::ToStore& message);
  StoreActions on_gone(BootTime now, StoreSession client);
  StoreActions on_tick(BootTime now);
  // Returns when on_tick is due.
  std::optional<BootTime> next_tick() const;

  // Requests room of `bytes` for a copy, see take_rooms().
  StoreActions reserve_copy(BootTime now, const ObjectKey& key, int64_t bytes);
  // Returns copies that got room, or their errors; each once.
  std::vector<std::pair<ObjectKey, Result<uint64_t>>> take_rooms();  // The arena number of writer 0.
  // Sets the references inside the copy being fetched, as listed by its owner node.
  StoreActions set_contents(BootTime now, const ObjectKey& key, const protocol::Located& at_home);
  // Sets the room of a copy.
  void set_copy(const ObjectKey& key, uint64_t arena, int64_t bytes);
  // The copy is in its arena at offset 0, or could not be fetched.
  StoreActions on_fetched(BootTime now, const ObjectKey& key, Result<void> outcome);

  // The connection to the store at that address was lost, with this store's references there. True: call refer_again()
  // for objects here.
  bool on_home_lost(const std::string& address);
  StoreActions refer_again(const std::string& address);

  // An object was written for StoreActions::Spill, or the disk failed: then it stays in memory and spilling pauses.
  StoreActions on_spilled(BootTime now, const StoreActions::Spill& spill, Result<SpillSums> outcome);
  // A large object is being written: extends the waits for room.
  void on_spill_progress(BootTime now) { progress_ = now; }
  StoreActions on_restored(BootTime now, const ObjectKey& key, uint64_t arena, Result<void> outcome);

  // Warm memory: former arenas of copies and restored objects, whose pages are allocated, kept for reuse. Counted as
  // used; released as soon as a client waits for room.
  int64_t spare_bytes() const;
  StoreActions drop_spares();

  // Location of an object on this node; nothing: not here. In memory, otherwise on disk.
  struct Place {
    ArenaKey arena;
    int64_t offset = 0;
    int64_t bytes = 0;
    std::optional<SpillPlace> disk;  // Set only if it is not in memory.
  };
  std::optional<Place> find(const ObjectKey& key) const;
  // Whether an object here has a handle on the actor.
  bool holds_actor(const ActorId& actor) const { return actors_.contains(actor); }
  std::vector<ActorId> actors() const;

  int64_t bytes_used() const { return used_; }
  int64_t bytes_max() const { return limits_.bytes_max; }
  int64_t spilled() const { return disk_ ? static_cast<int64_t>(disk_->used()) : 0; }
  int64_t spilled_max() const { return limits_.spill_bytes_max; }
  size_t objects() const { return objects_.size(); }
  // An object, for lists.
  struct Row {
    ObjectKey key;
    int64_t bytes = 0;
    std::string site;
    std::string place;                 // Source location of the put.
    std::string writer;                // Process that put it.
    std::vector<std::string> holders;  // Holders of references.
    bool copy = false;
    bool in_memory = false;
    bool spilled = false;
    int64_t references = 0;
  };
  std::vector<Row> rows(size_t rows_max) const;  // The largest objects.
  // Objects that one process put at one source location.
  struct Group {
    std::string site, place, writer;
    int64_t objects = 0;
    int64_t bytes = 0;
    int64_t in_memory = 0;  // Bytes in memory.
    int64_t spilled = 0;    // Bytes on disk, including objects that are also in memory.
    int64_t references = 0;
  };
  std::vector<Group> groups(size_t groups_max) const;  // The largest groups. O(objects).

  // Aborts if the state is inconsistent. O(everything).
  void check_invariants() const;

 private:
  // References of one client to one object.
  struct Hold {
    int64_t count = 0;     // Number of references; 0: none left.
    bool located = false;  // The client knows the object's place in memory and may read there.
    bool reading = false;  // The client reported that it is reading.
    uint64_t asked = 0;    // Serial of the last Reclaim since the client received the place; 0: none.
  };
  struct References {
    std::map<StoreSession, Hold> held;
    int64_t lent = 0;  // May be negative: accepted before the transfer was reported.
    BootTime lent_until{};
    int64_t returning = 0;  // Number of disconnected nodes that had references.
  };
  struct Asked {  // Request of a client that waits for the object.
    StoreSession client;
    uint64_t request = 0;
    bool claim = false;
  };
  // References inside an object; for a copy without those that its owner node holds itself.
  struct Contents {
    std::vector<ObjectKey> objects;
    std::vector<ActorId> actors;
  };
  // An object of this node, or a copy of another node's object.
  struct Object {
    ArenaKey arena;  // Valid while in_memory.
    int64_t offset = 0;
    int64_t bytes = 0;
    std::string site;
    std::string place;
    References references;
    bool in_memory = false;
    std::optional<SpillPlace> disk;
    bool writing = false;    // Being written to disk.
    bool restoring = false;  // Waiting for room, or being read from disk.
    bool freed = false;      // By volador::free; kept while there are references.
    std::vector<Asked> asked;
    std::string address;  // Address of its owner node, for a copy.
    struct Puller {       // Another node's store that has or fetches a copy.
      StoreSession peer;
      int readers = 0;  // Number of nodes that were directed to this copy.
    };
    std::vector<Puller> pullers;
    int readers = 0;                          // Number of nodes that read it here.
    bool fetched = true;                      // For copies: it has arrived.
    bool named = false;                       // For copies: referenced only by objects here, without its bytes.
    bool counted = false;                     // For copies: the owner counts contained references as well as the copy.
    bool naming = false;                      // Its ObjectContents are incomplete.
    std::unique_ptr<Contents> contents = {};  // Null: none.
  };
  struct Arena {
    enum class Phase : uint8_t { kUsed, kAsking, kWriting, kEmptied };
    int64_t bytes = 0;
    std::unordered_set<ObjectKey> residents;
    std::set<StoreSession> known_to;
    bool writer_gone = false;
    Phase phase = Phase::kUsed;
    BootTime until{};         // For kAsking and kEmptied.
    uint64_t used = 0;        // Time of the last use of its objects; see uses_.
    uint64_t spared_for = 0;  // Serial of the room request for which it was skipped, because it had been read recently.
    int64_t located = 0;      // Pairs of residents and clients that know their place.
    int64_t reading = 0;      // Pairs of residents and clients that are reading.
    int64_t writes = 0;       // Writes in progress.
    bool silent = false;      // A client did not answer.
  };
  struct Client {
    uint64_t writer = 0;
    std::string who;
    std::string address;  // For another node's store.
    bool greeted = false;
    int64_t reserved = 0;      // Reserved and not yet used for an arena.
    uint64_t last_number = 0;  // Number of its last object.
    size_t arenas = 0;
    size_t waiting = 0;
    std::set<ObjectKey> refers;
  };
  struct Wanted {  // A request for room.
    uint64_t serial = 0;
    StoreSession client{};
    uint64_t request = 0;
    int64_t bytes = 0;
    BootTime until{};
    std::optional<ObjectKey> copy = {};     // Set instead of client and request: fetch this copy.
    std::optional<ObjectKey> restore = {};  // Set instead of client and request: restore this object from disk.
  };

  void hello(StoreSession id, Client& client, const protocol::StoreHello& message, StoreActions& actions);
  void reserve(BootTime now, StoreSession id, Client& client, const protocol::Reserve& message, StoreActions& actions);
  void cancel_reserve(StoreSession id, const protocol::CancelReserve& message, StoreActions& actions);
  std::optional<std::string> add_arena(StoreSession id, Client& client, const protocol::AddArena& message);
  std::optional<std::string> drop_arena(Client& client, const protocol::DropArena& message, StoreActions& actions);
  std::optional<std::string> put(BootTime now, StoreSession id, Client& client, const protocol::PutObject& message,
                                 StoreActions& actions);
  void acquire(BootTime now, StoreSession id, const protocol::AcquireObject& message, StoreActions& actions);
  void acquire_copy(StoreSession id, const ObjectKey& key, const protocol::AcquireObject& message,
                    StoreActions& actions);
  std::optional<std::string> release(StoreSession id, const ObjectKey& key, StoreActions& actions);
  void claim(BootTime now, const ObjectKey& key, References& references);
  void await_claim(BootTime now, const ObjectKey& key, References& references);
  bool awaits_claim(const ObjectKey& key) const;
  void forget_settled();
  void lend(BootTime now, const ObjectKey& key, StoreActions& actions);
  // Sends the place, or that there is none.
  void answer(StoreSession to, uint64_t request, Object& object, StoreActions& actions);
  std::optional<std::string> choose_source(Object& object, StoreSession to);
  static void refuse(StoreSession to, uint64_t request, const Error& error, StoreActions& actions);
  void refuse_asked(Object& object, const Error& error, StoreActions& actions);
  Error lost(const ObjectKey& key, const std::string& why) const;
  Error gone_by_free(const ObjectKey& key) const;
  void grant(StoreActions& actions);
  bool is_obsolete(const Wanted& wanted) const;
  bool has_room(int64_t bytes, StoreActions& actions);
  std::optional<uint64_t> own_arena(int64_t bytes, StoreActions& actions);
  void keep_spare(const ArenaKey& key, StoreActions& actions);
  std::optional<uint64_t> take_spare(int64_t bytes);
  void drop_oldest_spare(StoreActions& actions);
  void remove_arena(const ArenaKey& key, StoreActions& actions);
  void answer_room(const Wanted& wanted, const std::optional<Error>& error, StoreActions& actions);
  BootTime deadline(const Wanted& wanted) const { return std::max(wanted.until, progress_ + limits_.room_patience); }
  Error full(int64_t bytes) const;
  std::string writer_name(const ObjectKey& key) const;
  static bool is_unused(const References& references) {
    return references.held.empty() && references.lent <= 0 && references.returning == 0;
  }
  static int64_t references_of(const References& references);
  void drop_unused(const ObjectKey& key, StoreActions& actions);
  void free_object(const ObjectKey& key, StoreActions& actions);
  void drop_copy(const ObjectKey& key, StoreActions& actions);
  void tell_freed(const ArenaKey& arena, const std::vector<uint64_t>& numbers, StoreActions& actions);
  void close_arena(const ArenaKey& key, StoreActions& actions);
  std::string who(StoreSession client) const;

  // store_table_contents.cc
  std::optional<std::string> contain(StoreSession id, const Client& client, const protocol::ObjectContents& message,
                                     StoreActions& actions);
  void end_naming(const ObjectKey& key, Object& object, StoreActions& actions);
  void report_contained_refs(const Object& object, protocol::Located& located) const;
  void hold_actor(Contents& contents, const ActorId& actor, StoreActions& actions);
  bool refer(const ObjectKey& key, const std::string& address, StoreActions& actions);
  void remove_reference(const ObjectKey& key, StoreActions& actions);
  void release_contained_refs(Object& object);
  void drop_contents(StoreActions& actions);

  // store_table_spill.cc
  void set_located(const Object& object, Hold& hold, bool located);
  void set_reading(const Object& object, Hold& hold, bool reading);
  void forget_hold(Object& object, StoreSession client);
  void enter_memory(const ObjectKey& key, Object& object, const ArenaKey& arena, int64_t offset);
  // Frees its range in the arena without notifying the writer. False: the arena was closed with it.
  bool leave_memory(const ObjectKey& key, Object& object, StoreActions& actions);
  void leave_disk(Object& object, StoreActions& actions);
  void drop_spare_files(StoreActions& actions);
  void touch(const Object& object);
  void locate(BootTime now, StoreSession id, Client& client, const protocol::LocateObject& message,
              StoreActions& actions);
  void yield(StoreSession id, const protocol::YieldObjects& message);
  void free(StoreSession id, const ObjectKey& key, StoreActions& actions);
  void forget_freed(ObjectKey key, StoreActions& actions);
  int64_t missing_room() const;
  bool can_empty(const Arena& arena) const;
  void make_room(BootTime now, StoreActions& actions);
  void ask_to_yield(const std::vector<ObjectKey>& objects, bool insist, bool freed, StoreActions& actions);
  void start_emptying(BootTime now, const ArenaKey& key, StoreActions& actions);
  void advance(BootTime now, StoreActions& actions);
  void start_writing(BootTime now, const ArenaKey& key, StoreActions& actions);
  void finish_emptying(BootTime now, const ArenaKey& key, StoreActions& actions);
  void set_phase(Arena& arena, const ArenaKey& key, Arena::Phase phase);
  void expire_phases(BootTime now);
  void pause_spilling(BootTime now, std::string why);

  const NodeId node_;
  const std::string node_name_;
  const StoreLimits limits_;
  std::string address_;
  int64_t used_ = 0;  // Arenas and reservations.
  uint64_t next_copy_ = 1;
  std::map<StoreSession, Client> clients_;
  std::unordered_map<uint64_t, StoreSession> writers_;          // Connected writers.
  std::unordered_map<ObjectKey, Object> objects_;               // Objects of this node and copies.
  std::unordered_map<ObjectKey, std::vector<Asked>> expected_;  // Objects of this node that were not put yet.
  std::map<ArenaKey, Arena> arenas_;
  std::unordered_map<ActorId, int64_t> actors_;    // Number of objects with handles on each actor.
  std::vector<std::unique_ptr<Contents>> let_go_;  // Contents of removed objects, to be released.
  std::deque<Wanted> wanted_;                      // In order of arrival and therefore of deadlines.
  uint64_t next_wanted_ = 1;
  std::deque<std::pair<BootTime, ArenaKey>> spares_;  // With expiry, next first. Empty while a client waits for room.
  BootTime now_{};                                    // Time of the last event.
  std::vector<std::pair<ObjectKey, Result<uint64_t>>> rooms_;
  std::deque<std::pair<BootTime, ObjectKey>> lent_;       // By deadline; settled entries are skipped.
  std::deque<std::pair<BootTime, ObjectKey>> returning_;  // By deadline.

  std::optional<FreeList> disk_;  // Allocator of the spill file.
  uint64_t uses_ = 0;             // Use counter, which orders uses.
  uint64_t serial_ = 0;           // Serial of the last Reclaim.
  int64_t emptying_ = 0;          // Bytes of arenas that are not kUsed.
  std::set<ArenaKey> phases_;     // Arenas that are not kUsed.
  std::set<ObjectKey> freed_;     // Freed by volador::free and still in memory: they may have readers.
  BootTime progress_{};           // Last progress of writing to disk.
  std::optional<BootTime> paused_until_;
  std::string spill_trouble_;  // Why spilling paused last.
};

}  // namespace volador::worker
