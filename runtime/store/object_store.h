// A process's interface to the object store: immutable bytes in shared memory. ref.h is the typed interface.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "runtime/ids.h"
#include "runtime/result.h"
#include "runtime/store/object_key.h"

namespace volador {

// Bytes of an object in place. They stay readable while `owner` lives.
struct ObjectView {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;

  const std::byte* data() const { return bytes.data(); }
  size_t size() const { return bytes.size(); }
  auto begin() const { return bytes.begin(); }
  auto end() const { return bytes.end(); }
};

inline constexpr size_t kObjectContentsMax = 1'000'000;  // Maximum of references and handles inside one object.

// Origin of an object, for display.
struct PutSite {
  std::string_view type;
  std::string_view place;  // "train.cc:41"; empty: unknown.
};

class StoredObject;
class RefScope;

// Reconstruction of lost objects: the task that returned them. Thread safe.
class ObjectOrigin {
 public:
  using Done = std::function<void(Result<std::shared_ptr<const StoredObject>>)>;
  virtual ~ObjectOrigin() = default;
  // Reconstructs the object `index`. `depth`: number of lost objects in the reconstruction chain. Concurrent requests
  // share one run; later ones get its result. `done` runs once, possibly before rebuild() returns, on a thread that it
  // must not block. kObjectLost: it failed.
  virtual void rebuild(size_t index, int depth, Done done) = 0;
  // Returns the replacement while this process has references to it; null: none.
  virtual std::shared_ptr<const StoredObject> replacement(size_t index) const = 0;
  // Returns the length of the longest chain of origins of the task's arguments, including this one.
  virtual int length() const = 0;
  // Session::name_as_owner() of the task's submitter; empty: only this process can reconstruct it.
  virtual const std::string& owner() const = 0;
  // Whether the owner is another process.
  virtual bool is_borrowed() const { return false; }
  // Memory held for the task.
  virtual size_t bytes() const { return 0; }
};

// An object referenced by this process; the last copy of the pointer releases the reference. Thread safe.
class StoredObject {
 public:
  virtual ~StoredObject();
  virtual const ObjectKey& key() const = 0;
  virtual const std::string& address() const = 0;  // Address of its node, for stores of other nodes.
  // Waits until the object is readable here; loads it if it was spilled to disk. kObjectLost: also after volador::free;
  // kStoreFull: no room for it on this node; kUnavailable: this node's store has ended; kTimeout.
  virtual Result<ObjectView> view(std::optional<std::chrono::nanoseconds> timeout) const = 0;
  // Whether the object is on this node, in memory or on disk, or is lost.
  virtual bool is_ready() const = 0;

  struct Origin {
    std::shared_ptr<ObjectOrigin> made_by;  // Null: cannot be reconstructed.
    size_t index = 0;
  };
  // Applies to this object even if it is acquired again while this one lives.
  void set_origin(Origin origin) const;
  Origin origin() const;
  // The replacement lives as long as this object.
  void set_replacement(std::shared_ptr<const StoredObject> made) const;
  std::shared_ptr<const StoredObject> replacement() const;
  // Copies the origin of an earlier object with the same key, if this one has none.
  void find_origin() const;

 private:
  mutable Origin origin_;
  mutable std::shared_ptr<const StoredObject> replacement_;
  mutable ObjectKey origin_key_;  // Set if it has an origin.
};

// Returns the object or its newest replacement.
std::shared_ptr<const StoredObject> newest(std::shared_ptr<const StoredObject> object);

// Origins of objects that were passed on are remembered for a while after this process has released its references, so
// that other processes can request reconstruction: at most kPassedOnOriginsMax and kPassedOnBytesMax; the oldest is
// dropped first.
inline constexpr size_t kPassedOnOriginsMax = 10'000;
inline constexpr size_t kPassedOnBytesMax = size_t{64} << 20;
void keep_origin(const StoredObject& passed_on);
// Returns the origin of an object; made_by is null if unknown.
StoredObject::Origin known_origin(const ObjectKey& key);

// Memory of an object that is being written; released unless sealed.
class ObjectDraft {
 public:
  virtual ~ObjectDraft() = default;
  virtual std::span<std::byte> space() const = 0;  // Aligned to 64 bytes.
};

// Creates, acquires and frees objects. Thread safe.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Waits for room. kStoreFull names the largest holders; kUnavailable: there is no store on this machine.
  virtual Result<std::unique_ptr<ObjectDraft>> create(size_t bytes) = 0;
  // Makes the object immutable. `contents`: its references and handles, moved from: they live as long as the object.
  virtual Result<std::shared_ptr<const StoredObject>> seal(std::unique_ptr<ObjectDraft> draft, const PutSite& site,
                                                           RefScope* contents = nullptr) = 0;
  // Acquires an object received from another process. Does not wait. `claim`: accept a reference transferred with a
  // reply.
  virtual std::shared_ptr<const StoredObject> acquire(const ObjectKey& key, const std::string& address, bool claim) = 0;
  // Transfers a reference in a reply, whose receiver will accept it.
  virtual void lend(const StoredObject& object) = 0;
  // Frees the object for all holders. Current readers finish; later reads get kObjectLost.
  virtual void free(const StoredObject& object) = 0;
  // Calls the function once, on any thread, when the object is_ready(), at once if it is.
  virtual void when_ready(const StoredObject& object, std::function<void()> call) = 0;
  // Returns when the store has recorded every acquired reference.
  virtual void settle() = 0;
};

// Tracks references encoded or decoded on this thread during its lifetime: holds sent references until they have
// arrived, and determines how received ones are counted. Scopes nest; the innermost one applies.
class RefScope {
 public:
  enum class Kind : uint8_t {
    kSend,           // Arguments, a reply, or an object that is put.
    kReceiveAnswer,  // References in the reply were transferred: accept them.
    kReadObject,     // Referenced objects live as long as the object being read.
  };
  // `received`: gets the decoded objects in order; for a reply without duplicates.
  explicit RefScope(Kind kind, std::vector<std::shared_ptr<const StoredObject>>* received = nullptr);
  ~RefScope();
  RefScope(const RefScope&) = delete;
  RefScope& operator=(const RefScope&) = delete;

  static RefScope* current();
  // Adds an encoded reference.
  void add(std::shared_ptr<const StoredObject> object);
  // Adds an encoded actor handle and the hold that keeps the actor alive. Duplicates are ignored.
  void add(const ActorId& actor, std::shared_ptr<const void> hold);
  // Holds another value for the same time.
  void keep(std::shared_ptr<const void> what) { kept_.push_back(std::move(what)); }
  // Records a decoded reference; `claimed` is set once per object.
  void receive(std::shared_ptr<const StoredObject> object, bool claimed) {
    if (received_ != nullptr && (claimed || kind_ == Kind::kReadObject)) received_->push_back(std::move(object));
  }
  // Whether to accept the transferred reference: once per object, and per actor, of a reply.
  bool claims(const ObjectKey& key);
  bool claims(const ActorId& actor);

  bool empty() const { return objects_.empty() && kept_.empty(); }
  const std::vector<std::shared_ptr<const StoredObject>>& objects() const { return objects_; }
  const std::vector<ActorId>& actors() const { return actors_; }
  // Returns the held values as one pointer; null if there are none.
  std::shared_ptr<const void> take();

 private:
  // Set of keys: usually few, but an object may reference a million others.
  template <class Key>
  class Seen {
   public:
    // False: already present.
    bool add(const Key& key) {
      if (many_.empty()) {
        if (std::find(few_.begin(), few_.end(), key) != few_.end()) return false;
        if (few_.size() < kFew) return few_.push_back(key), true;
        many_.insert(few_.begin(), few_.end());
      }
      return many_.insert(key).second;
    }

   private:
    static constexpr size_t kFew = 16;
    std::vector<Key> few_;
    std::unordered_set<Key> many_;  // All keys, if there are more than kFew.
  };

  const Kind kind_;
  RefScope* const outer_;
  std::vector<std::shared_ptr<const StoredObject>>* const received_;
  std::vector<std::shared_ptr<const StoredObject>> objects_;
  Seen<ObjectKey> seen_objects_;  // Sent or accepted.
  Seen<ActorId> seen_actors_;
  std::vector<std::shared_ptr<const void>> kept_;
  std::vector<ActorId> actors_;  // Sent actors.
};

}  // namespace volador
