// Internals of StoreClient: state shared by its threads, and objects that may outlive it. Included by store_client*.cc
// only.
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
// Upper limit; the store may grant less. Larger objects get their own arena.
inline constexpr size_t kArenaBytesMax = size_t{64} << 20;

inline size_t round_up(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

// Shared by the client, its thread, and the objects that may outlive it.
struct StoreClient::Impl : std::enable_shared_from_this<StoreClient::Impl> {
  explicit Impl(StoreClientOptions given) : options(std::move(given)) {}

  struct OwnArena {
    OwnArena(uint64_t its_number, Arena its_memory)
        : number(its_number), memory(std::move(its_memory)), ranges(memory.mapping->bytes()) {}
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
  // A pending request to the store.
  struct Question {
    bool answered = false;
    std::optional<Error> error;
    std::weak_ptr<const Object> object;  // For Acquire and Locate.
    bool locates = false;                // An error affects one reading, not the object.
    size_t bytes = 0;                    // For Reserve: size of the object that waits for room.
    size_t arena_bytes = 0;              // For Reserve: size of the requested arena.
    std::optional<Range> range;          // Room found in an existing arena of this process.
  };

  const StoreClientOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  net::UniqueFd socket;
  bool connected = false;  // StoreWelcome has arrived.
  bool closed = false;     // Permanently.
  std::optional<Error> broken;
  uint64_t generation = 0;  // Number of the connection: objects of an earlier connection are not released on this one.
  NodeId node;
  uint64_t writer = 0;
  std::string address;
  uint64_t next_request = 1;
  uint64_t next_number = 1;
  uint64_t next_arena = 1;
  size_t arena_bytes = kFirstArenaBytes;
  size_t arena_bytes_max = kArenaBytesMax;
  std::map<uint64_t, std::unique_ptr<OwnArena>> arenas;
  std::unordered_map<uint64_t, Range> written;                               // Own objects with references.
  std::map<std::pair<uint64_t, uint64_t>, std::shared_ptr<Mapping>> mapped;  // Arenas of other processes.
  std::unordered_map<ObjectKey, std::weak_ptr<const Object>> objects;
  std::unordered_map<uint64_t, std::shared_ptr<Question>> questions;
  std::map<uint64_t, std::shared_ptr<Question>> rooms;             // Requests for room, in order.
  std::unordered_map<uint64_t, std::shared_ptr<const void>> kept;  // Actor holds of own objects, until Kept.
  std::vector<std::shared_ptr<const void>> unkept;      // Former `kept` entries, to be destroyed without the lock.
  size_t unsettled = 0;                                 // Unanswered acquisitions.
  std::vector<std::shared_ptr<const Object>> unlocked;  // To destroy without the lock, which destructors take.
  std::vector<std::function<void()>> calls;             // Callbacks to run without the lock.
  std::thread reader;

  using Lock = std::unique_lock<std::mutex>;

  // Call with the lock held, so that messages are sent in order.
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
  void say_lost();  // Call without the mutex.
  void lose(const Error& error);
  void give_back(uint64_t arena, size_t offset);
  void drop_empty(std::chrono::steady_clock::time_point unused_since);
  std::optional<Range> allocate(size_t bytes);
  Result<Range> add_arena(Lock& lock, size_t bytes);
  void release(const ObjectKey& key, uint64_t its_generation);
};

// An object referenced by this process.
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
  void come() const {  // Queues the callbacks that wait for the object.
    for (auto& call : std::exchange(waiting_, {})) store_->calls.push_back(std::move(call));
  }

  const std::shared_ptr<Impl> store_;
  const ObjectKey key_;
  const std::string address_;
  const uint64_t generation_;
  void end_reading() const;

  // Guarded by the store's mutex.
  mutable std::shared_ptr<Mapping> mapping_;  // Null: not arrived, or not in memory.
  mutable size_t offset_ = 0;
  mutable size_t bytes_ = 0;
  mutable bool away_ = false;                      // The store may have moved it: request its place.
  mutable std::shared_ptr<Impl::Question> asked_;  // The pending request for its place.
  mutable std::optional<Error> error_;             // Permanent.
  mutable size_t readings_ = 0;                    // Views that exist or are waited for.
  mutable bool read_lately_ = false;               // Read since the store's last Reclaim.
  mutable uint64_t wanted_ = 0;  // Serial of the Reclaim that waits for the last reading to end; 0: none.
  mutable std::vector<std::function<void()>> waiting_;
};

// A view of an object: keeps the object in place.
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

// A range of an arena in which an object is being written.
class StoreClient::Draft final : public ObjectDraft {
 public:
  Draft(std::shared_ptr<Impl> store, Impl::Range range, uint64_t generation)
      : store_(std::move(store)), range_(std::move(range)), generation_(generation) {}
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
