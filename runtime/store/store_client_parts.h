// The parts of a process's connection to its object store: what its threads share, and the objects that may outlive it.
// Only store_client*.cc include it.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/net/unique_fd.h"
#include "runtime/protocol/store.pb.h"
#include "runtime/store/arena.h"
#include "runtime/store/free_list.h"
#include "runtime/store/object_name.h"
#include "runtime/store/store_client.h"

namespace volador {

inline constexpr size_t kFirstArenaBytes = size_t{4} << 20;
inline constexpr size_t kArenaBytesMax = size_t{64} << 20;  // Of those that hold many objects, or less where the store says so; a larger object has one to itself.

inline size_t round_up(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

// Shared by the client, its thread, and the objects that may outlive it.
struct StoreClient::Impl : std::enable_shared_from_this<StoreClient::Impl> {
  explicit Impl(StoreClientOptions given) : options(std::move(given)) {}

  struct OwnArena {
    OwnArena(uint64_t its_number, Arena its_memory) : number(its_number), memory(std::move(its_memory)), ranges(memory.mapping->bytes()) {}
    const uint64_t number;
    const Arena memory;
    FreeList ranges;
    std::chrono::steady_clock::time_point empty_since{};
  };
  struct Range {
    uint64_t arena = 0;
    size_t offset = 0;
    size_t bytes = 0;
    std::shared_ptr<Mapping> mapping;
  };
  // What is asked of the store.
  struct Question {
    bool answered = false;
    std::optional<Error> error;
    std::weak_ptr<const Object> object;  // Of Acquire and Locate.
    bool locates = false;                // An error is that of one reading, not of the object.
    size_t bytes = 0;                    // Of Reserve: of the object that waits for room,
    size_t arena_bytes = 0;              // and of the arena that was asked for.
    std::optional<Range> range;          // It found room in an arena of this process.
  };

  const StoreClientOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  net::UniqueFd socket;
  bool connected = false;   // The welcome came.
  bool closed = false;      // For good.
  std::optional<Error> broken;
  uint64_t generation = 0;  // Of the connection: objects of an earlier one are not given back to this one.
  NodeId node;
  uint64_t writer = 0;
  std::string address;
  uint64_t next_request = 1;
  uint64_t next_number = 1;
  uint64_t next_arena = 1;
  size_t arena_bytes = kFirstArenaBytes;
  size_t arena_bytes_max = kArenaBytesMax;
  std::map<uint64_t, std::unique_ptr<OwnArena>> arenas;
  std::unordered_map<uint64_t, Range> written;  // Own objects that somebody refers to.
  std::map<std::pair<uint64_t, uint64_t>, std::shared_ptr<Mapping>> mapped;  // Others' arenas.
  std::unordered_map<ObjectKey, std::weak_ptr<const Object>> objects;
  std::unordered_map<uint64_t, std::shared_ptr<Question>> questions;
  std::map<uint64_t, std::shared_ptr<Question>> rooms;  // Those for room, by their order.
  std::unordered_map<uint64_t, std::shared_ptr<const void>> kept;  // What keeps actors of which own objects have handles, until Kept.
  std::vector<std::shared_ptr<const void>> unkept;  // Of it: to be let go without the lock.
  size_t unsettled = 0;  // Acquisitions without an answer.
  std::vector<std::shared_ptr<const Object>> unlocked;  // To be let go without the lock: their ends take it.
  std::vector<std::function<void()>> calls;             // To be made without the lock.
  std::thread reader;

  using Lock = std::unique_lock<std::mutex>;

  // The lock is held, so that messages leave in the order in which things happened.
  void send(const protocol::ToStore& message, std::span<const int> fds = {});

  Result<void> connect(Lock& lock);
  void read();
  void on_message(const protocol::FromStore& message, std::vector<net::UniqueFd> fds);
  void on_located(const protocol::Located& located, std::vector<net::UniqueFd> fds);
  void on_reserved(const protocol::Reserved& reserved);
  void on_freed(const protocol::Freed& freed);
  void on_reclaim(const protocol::Reclaim& reclaim);
  protocol::YieldObjects::Answer let_go(const Object& object, uint64_t serial, const protocol::Reclaim& reclaim);
  void ask_place(const Object& object);
  void tell_contents(uint64_t number, RefScope& contents);
  void serve_rooms();
  void say_lost();  // Not under the mutex.
  void lose(const Error& error);
  void give_back(uint64_t arena, size_t offset);
  void drop_empty(std::chrono::steady_clock::time_point unused_since);
  std::optional<Range> allocate(size_t bytes);
  Result<Range> add_arena(Lock& lock, size_t bytes);
  void release(const ObjectKey& key, uint64_t its_generation);
};

class StoreClient::Object final : public StoredObject, public std::enable_shared_from_this<StoreClient::Object> {
 public:
  Object(std::shared_ptr<Impl> store, const ObjectKey& key, std::string address, uint64_t generation)
      : store_(std::move(store)), key_(key), address_(std::move(address)), generation_(generation) {}
  ~Object() override { store_->release(key_, generation_); }

  const ObjectKey& key() const override { return key_; }
  const std::string& address() const override { return address_; }
  Result<ObjectView> view(std::optional<std::chrono::nanoseconds> timeout) const override;
  bool is_ready() const override {
    const std::lock_guard lock(store_->mutex);
    return has_come();
  }

 private:
  friend struct Impl;
  friend class StoreClient;
  friend class Reading;
  bool has_come() const { return mapping_ != nullptr || away_ || error_.has_value(); }
  void come() const {  // Whoever waits for it is called.
    for (auto& call : std::exchange(waiting_, {})) store_->calls.push_back(std::move(call));
  }

  const std::shared_ptr<Impl> store_;
  const ObjectKey key_;
  const std::string address_;
  const uint64_t generation_;
  void end_reading() const;

  // Under the store's mutex.
  mutable std::shared_ptr<Mapping> mapping_;  // Null: it has not come, or is away.
  mutable size_t offset_ = 0;
  mutable size_t bytes_ = 0;
  mutable bool away_ = false;                 // The store may have moved it: its place must be asked for.
  mutable std::shared_ptr<Impl::Question> asked_;  // That.
  mutable std::optional<Error> error_;        // For good.
  mutable size_t readings_ = 0;               // Views that are held or waited for.
  mutable bool read_lately_ = false;          // Since the store last asked whether it may go.
  mutable uint64_t wanted_ = 0;               // Serial of the store's question that waits for the last reading to end; 0: none.
  mutable std::vector<std::function<void()>> waiting_;
};

// One view of an object: keeps it where it is.
class StoreClient::Reading {
 public:
  explicit Reading(std::shared_ptr<const Object> object) : object_(std::move(object)) {}
  ~Reading() {
    const std::lock_guard lock(object_->store_->mutex);
    object_->end_reading();
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

 private:
  const std::shared_ptr<const Object> object_;
};

class StoreClient::Draft final : public ObjectDraft {
 public:
  Draft(std::shared_ptr<Impl> store, Impl::Range range, uint64_t generation) : store_(std::move(store)), range_(std::move(range)), generation_(generation) {}
  ~Draft() override {
    const std::lock_guard lock(store_->mutex);
    if (sealed_ || generation_ != store_->generation) return;
    store_->give_back(range_.arena, range_.offset);
    store_->serve_rooms();
    store_->changed.notify_all();
  }
  std::span<std::byte> space() const override { return {range_.mapping->data() + range_.offset, range_.bytes}; }

 private:
  friend class StoreClient;
  const std::shared_ptr<Impl> store_;
  const Impl::Range range_;
  const uint64_t generation_;
  bool sealed_ = false;
};

}  // namespace volador
