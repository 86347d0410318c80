// The mind of a node's object store: which process wrote which object where, who refers to it, and how much room there is.
//
//   reserve ─► arena ─► put ─► (references: of processes here, of other nodes' stores, lent to answers under way) ─► none left: freed,
//   its writer uses the room again; an arena whose writer has ended goes with its last object.
//
// Where room is wanted and there is none, the arenas used least recently are emptied (store_table_spill.cc):
//
//   arena:   asking (may its objects go? their readers answer) ─► writing (to disk) ─► emptied (its writer drops it) ─► closed
//   object:  in memory ─► also on disk ─► on disk only ─► (somebody reads it) ─► in an arena of the store, and on disk
//
// An object leaves memory only when no process knows its place any more: each forgets it when asked, unless it reads it at that moment,
// and asks for it again before the next reading.
//
// Objects of other nodes are copied here at the first reference and dropped after the last one; their home counts this store as one
// that refers to them. A large one that many nodes want travels as a tree: its home names each of them another one from whose copy to read,
// also while that one still comes, so that no node sends it more than kTreeWidth times.
//
// What is referred to inside an object lives as long as that one (store_table_contents.cc): objects are counted here like those of a process,
// handles on actors by the head, which hears of the first object with a handle on an actor and of the end of the last one. A copy does the
// same for what its home names with it: objects of third nodes are counted there, their bytes come when somebody here refers to them.
//
// A node that is cut off keeps what it referred to for kReturnPatience: until then it may come back and refer to it again.
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

// One connection: of a process of this node, or of another node's store.
enum class StoreSession : uint64_t {};
inline constexpr StoreSession kObjectsThemselves{0};  // No connection: what objects of this node refer to is held by it.

// An arena of a writer.
inline constexpr int64_t kTreeBytesMin = int64_t{8} << 20;  // Smaller objects are read at their home.
inline constexpr int kTreeWidth = 2;
inline constexpr std::chrono::seconds kReturnPatience{5};
inline constexpr int kNamedMax = 500'000;  // Of what is in an object, to another node: in one frame. The rest lives as long as the object's home.
inline constexpr uint64_t kOwnWriter = 0;  // This store's own arenas, of copies.
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
  size_t contents_max = kObjectContentsMax;
  int64_t spill_bytes_max = 0;    // On disk; 0: nothing is spilled.
  std::chrono::nanoseconds yield_patience = std::chrono::milliseconds(500);  // For a process to say whether an object may leave memory.
  std::chrono::nanoseconds spill_pause = std::chrono::seconds(1);            // After the disk refused, or was full.
  std::chrono::nanoseconds spare_patience = std::chrono::seconds(10);  // How long memory of a copy that went is kept for the next one; 0: not.
  int64_t spare_bytes_min = int64_t{1} << 20;  // Smaller arenas go at once.
  size_t spares_max = 64;
};

// CRC-32C of each chunk of what was written, in order.
using SpillSums = std::shared_ptr<const std::vector<uint32_t>>;

// A range of the spill file.
struct SpillPlace {
  int64_t offset = 0;
  int64_t bytes = 0;
  SpillSums sums;
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
    // kFreeCopy: to one that has a copy of an object of this node.
    // kRefer: to be counted there, without a copy.
    enum class What : uint8_t { kFetch, kRefer, kClaim, kLend, kRelease, kFree, kFreeCopy } what = What::kFetch;
    bool claim = false;  // Of kFetch.
  };
  struct Cut {
    StoreSession client;
    std::string why;
  };
  struct Spill {  // Write it; on_spilled() follows.
    ObjectKey key;
    ArenaKey arena;
    int64_t offset = 0;  // In the arena.
    SpillPlace to;       // Without sums.
  };
  struct Restore {  // Make arena `arena` of writer 0 and read it; on_restored() follows.
    ObjectKey key;
    uint64_t arena = 0;
    SpillPlace from;
  };
  std::vector<Send> send;
  std::vector<Home> home;
  std::vector<SpillPlace> discard;  // Before the others: their space may be used again at once.
  std::vector<Spill> spill;
  std::vector<Restore> restore;
  std::vector<ArenaKey> close;  // Descriptors and mappings of these can go.
  std::vector<Cut> cut;         // They broke the protocol; on_gone() follows.
  std::vector<ActorId> actors;  // holds_actor() changed. To be told before what is sent.
};

class StoreTable {
 public:
  StoreTable(NodeId node, std::string node_name, StoreLimits limits);

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
  // What the home says is in the copy that is fetched.
  StoreActions set_contents(BootTime now, const ObjectKey& key, const protocol::Located& at_home);
  // Where the copy will lie: the room that it got.
  void set_copy(const ObjectKey& key, uint64_t arena, int64_t bytes);
  // The copy lies in its arena from offset 0, or could not be had.
  StoreActions on_fetched(BootTime now, const ObjectKey& key, Result<void> outcome);

  // The connection to the store at that address was lost, and with it what was counted there. True: for objects here, refer_again().
  bool on_home_lost(const std::string& address);
  StoreActions refer_again(const std::string& address);

  // An object was written as StoreActions::Spill asked, or the disk refused: then it stays in memory and spilling pauses.
  StoreActions on_spilled(BootTime now, const StoreActions::Spill& spill, Result<SpillSums> outcome);
  // A large one is being written: who waits for room waits on.
  void on_spill_progress(BootTime now) { progress_ = now; }
  StoreActions on_restored(BootTime now, const ObjectKey& key, uint64_t arena, Result<void> outcome);

  // Memory without an object, whose pages are there already: of copies and of what came back from disk, for the next such one. Counted as
  // used; goes as soon as anybody waits for room.
  int64_t spare_bytes() const;
  StoreActions drop_spares();

  // Where an object lies; null: it is not here. In memory, else on disk.
  struct Place {
    ArenaKey arena;
    int64_t offset = 0;
    int64_t bytes = 0;
    std::optional<SpillPlace> disk;  // Only where it is not in memory.
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
  // One object, for lists.
  struct Row {
    ObjectKey key;
    int64_t bytes = 0;
    std::string site;
    std::string place;                 // Where its program put it.
    std::string writer;                // Who put it.
    std::vector<std::string> holders;  // Who refers to it.
    bool copy = false;
    bool in_memory = false;
    bool spilled = false;
    int64_t references = 0;
  };
  std::vector<Row> rows(size_t rows_max) const;  // The largest ones.
  // What one process put at one place.
  struct Group {
    std::string site, place, writer;
    int64_t objects = 0;
    int64_t bytes = 0;
    int64_t in_memory = 0;  // Bytes.
    int64_t spilled = 0;    // Bytes; with those that lie in memory as well.
    int64_t references = 0;
  };
  std::vector<Group> groups(size_t groups_max) const;  // The largest ones. O(objects).

  // Aborts where the parts disagree. O(everything).
  void check_invariants() const;

 private:
  // What one client has to do with one object.
  struct Hold {
    int64_t count = 0;      // References; 0: none left.
    bool located = false;   // It knows the object's place in memory and may read there.
    bool reading = false;   // It said that it reads it at this moment.
    uint64_t asked = 0;     // Serial of the last Reclaim since it was told the place; 0: none.
  };
  struct References {
    std::map<StoreSession, Hold> held;
    int64_t lent = 0;  // May be negative: claimed before the lending was heard of.
    BootTime lent_until{};
    int64_t returning = 0;  // Nodes that were cut off while they referred to it.
  };
  struct Asked {  // By a client that has to wait for the object.
    StoreSession client;
    uint64_t request = 0;
    bool claim = false;
  };
  // What an object refers to; of a copy not what its home node keeps itself.
  struct Contents {
    std::vector<ObjectKey> objects;
    std::vector<ActorId> actors;
  };
  // Of this node, or a copy of another node's.
  struct Object {
    ArenaKey arena;  // While in_memory.
    int64_t offset = 0;
    int64_t bytes = 0;
    std::string site;
    std::string place;
    References references;
    bool in_memory = false;
    std::optional<SpillPlace> disk;
    bool writing = false;    // To disk.
    bool restoring = false;  // Room is asked for, or it is being read.
    bool freed = false;      // By volador::free; kept as long as references are.
    std::vector<Asked> asked;
    std::string address;     // Of its home, where it is a copy.
    struct Puller {          // Another node's store that copies it, or has.
      StoreSession peer;
      int readers = 0;       // Others that were sent there.
    };
    std::vector<Puller> pullers;
    int readers = 0;         // Nodes that read it here.
    bool fetched = true;     // Copies: it has come.
    bool named = false;      // Copies: nobody but objects here refers to it, and its bytes are not here.
    bool counted = false;    // Copies: its home counts this store for them, besides for the bytes.
    bool naming = false;     // Its writer still says what is in it.
    std::unique_ptr<Contents> contents = {};  // Null: nothing.
  };
  struct Arena {
    enum class Phase : uint8_t { kUsed, kAsking, kWriting, kEmptied };
    int64_t bytes = 0;
    std::unordered_set<ObjectKey> residents;
    std::set<StoreSession> known_to;
    bool writer_gone = false;
    Phase phase = Phase::kUsed;
    BootTime until{};         // Of kAsking and kEmptied.
    uint64_t used = 0;        // When something in it was last used; see uses_.
    uint64_t spared_for = 0;  // The request for room for which it was passed over because it had been read lately.
    int64_t located = 0;      // Pairs of residents and clients that know their place,
    int64_t reading = 0;      // and of those that read.
    int64_t writes = 0;       // Under way.
    bool silent = false;      // A client did not answer.
  };
  struct Client {
    uint64_t writer = 0;
    std::string who;
    std::string address;        // Of another node's store.
    bool greeted = false;
    int64_t reserved = 0;       // Not used for an arena yet.
    uint64_t last_number = 0;   // Of its objects.
    size_t arenas = 0;
    size_t waiting = 0;
    std::set<ObjectKey> refers;
  };
  struct Wanted {  // Room.
    uint64_t serial = 0;
    StoreSession client{};
    uint64_t request = 0;
    int64_t bytes = 0;
    BootTime until{};
    std::optional<ObjectKey> copy = {};     // Instead of client and request: to fetch this one,
    std::optional<ObjectKey> restore = {};  // or to bring it back from disk.
  };

  void hello(StoreSession id, Client& client, const protocol::StoreHello& message, StoreActions& actions);
  void reserve(BootTime now, StoreSession id, Client& client, const protocol::Reserve& message, StoreActions& actions);
  void cancel_reserve(StoreSession id, const protocol::CancelReserve& message, StoreActions& actions);
  std::optional<std::string> add_arena(StoreSession id, Client& client, const protocol::AddArena& message);
  std::optional<std::string> drop_arena(Client& client, const protocol::DropArena& message, StoreActions& actions);
  std::optional<std::string> put(BootTime now, StoreSession id, Client& client, const protocol::PutObject& message, StoreActions& actions);
  void acquire(BootTime now, StoreSession id, const protocol::AcquireObject& message, StoreActions& actions);
  void acquire_copy(StoreSession id, const ObjectKey& key, const protocol::AcquireObject& message, StoreActions& actions);
  std::optional<std::string> release(StoreSession id, const ObjectKey& key, StoreActions& actions);
  void claim(BootTime now, const ObjectKey& key, References& references);
  void await_claim(BootTime now, const ObjectKey& key, References& references);
  bool awaits_claim(const ObjectKey& key) const;
  void forget_settled();
  void lend(BootTime now, const ObjectKey& key, StoreActions& actions);
  // Tells the place, or that it has none.
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
  static bool is_unused(const References& references) { return references.held.empty() && references.lent <= 0 && references.returning == 0; }
  static int64_t references_of(const References& references);
  void drop_unused(const ObjectKey& key, StoreActions& actions);
  void free_object(const ObjectKey& key, StoreActions& actions);
  void drop_copy(const ObjectKey& key, StoreActions& actions);
  void tell_freed(const ArenaKey& arena, const std::vector<uint64_t>& numbers, StoreActions& actions);
  void close_arena(const ArenaKey& key, StoreActions& actions);
  std::string who(StoreSession client) const;

  // store_table_contents.cc
  std::optional<std::string> contain(StoreSession id, const Client& client, const protocol::ObjectContents& message, StoreActions& actions);
  void end_naming(const ObjectKey& key, Object& object, StoreActions& actions);
  void name_contents(const Object& object, protocol::Located& located) const;
  void hold_actor(Contents& contents, const ActorId& actor, StoreActions& actions);
  bool refer(const ObjectKey& key, const std::string& address, StoreActions& actions);
  void refer_no_more(const ObjectKey& key, StoreActions& actions);
  void let_go_contents(Object& object);
  void drop_contents(StoreActions& actions);

  // store_table_spill.cc
  void set_located(const Object& object, Hold& hold, bool located);
  void set_reading(const Object& object, Hold& hold, bool reading);
  void forget_hold(Object& object, StoreSession client);
  void enter_memory(const ObjectKey& key, Object& object, const ArenaKey& arena, int64_t offset);
  // Its range in the arena is free then; the writer is not told. False: the arena was closed with it.
  bool leave_memory(const ObjectKey& key, Object& object, StoreActions& actions);
  void leave_disk(Object& object, StoreActions& actions);
  void drop_spare_files(StoreActions& actions);
  void touch(const Object& object);
  void locate(BootTime now, StoreSession id, Client& client, const protocol::LocateObject& message, StoreActions& actions);
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
  std::unordered_map<uint64_t, StoreSession> writers_;  // Connected ones.
  std::unordered_map<ObjectKey, Object> objects_;       // Of this node, and copies.
  std::unordered_map<ObjectKey, std::vector<Asked>> expected_;  // Of this node; their writer has not said that they are there.
  std::map<ArenaKey, Arena> arenas_;
  std::unordered_map<ActorId, int64_t> actors_;  // How many objects have handles on each.
  std::vector<std::unique_ptr<Contents>> let_go_;  // Of objects that are gone: to be given back.
  std::deque<Wanted> wanted_;  // By arrival, so by deadline too.
  uint64_t next_wanted_ = 1;
  std::deque<std::pair<BootTime, ArenaKey>> spares_;  // Until when, the next one first. None while anybody waits for room.
  BootTime now_{};                                    // Of the last event.
  std::vector<std::pair<ObjectKey, Result<uint64_t>>> rooms_;
  std::deque<std::pair<BootTime, ObjectKey>> lent_;  // By deadline; what is settled meanwhile is passed over.
  std::deque<std::pair<BootTime, ObjectKey>> returning_;  // By deadline.

  std::optional<FreeList> disk_;  // The spill file.
  uint64_t uses_ = 0;             // Counts uses: when, in their order.
  uint64_t serial_ = 0;           // Of the last Reclaim.
  int64_t emptying_ = 0;          // Bytes of arenas that are not kUsed.
  std::set<ArenaKey> phases_;     // Those.
  std::set<ObjectKey> freed_;     // By volador::free, still in memory: somebody may read them.
  BootTime progress_{};           // Of writing to disk.
  std::optional<BootTime> paused_until_;
  std::string spill_trouble_;     // Why spilling paused last.
};

}  // namespace volador::worker
