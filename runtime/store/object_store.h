// The object store as a process sees it: bytes in shared memory that many processes read and nobody changes.
// The typed face is ref.h.
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

// Bytes of an object where they lie. They stay there, and readable, as long as `owner` lives: keep it for as long as you read.
struct ObjectView {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;

  const std::byte* data() const { return bytes.data(); }
  size_t size() const { return bytes.size(); }
  auto begin() const { return bytes.begin(); }
  auto end() const { return bytes.end(); }
};

inline constexpr size_t kObjectContentsMax = 1'000'000;  // References and handles inside one object.

// Where an object comes from, for people.
struct PutSite {
  std::string_view type;
  std::string_view place;  // "train.cc:41"; empty: unknown.
};

class StoredObject;
class RefScope;

// Of an object that can be made again when it is lost: who made it. Thread safe.
class ObjectOrigin {
 public:
  using Done = std::function<void(Result<std::shared_ptr<const StoredObject>>)>;
  virtual ~ObjectOrigin() = default;
  // `index`: which of its objects. `depth`: of how many lost objects this one is needed to make one again. Once for several who ask; later
  // ones get what was made. `done` runs once, perhaps at once, on a thread that it must not block. kObjectLost: it could not be.
  virtual void rebuild(size_t index, int depth, Done done) = 0;
  // What was made in its place, while somebody here refers to that; null: nothing.
  virtual std::shared_ptr<const StoredObject> replacement(size_t index) const = 0;
  // The longest chain of origins whose objects went into this one, itself included.
  virtual int length() const = 0;
  // Session::name_as_owner() of who submitted the task; empty: only this process can make it again.
  virtual const std::string& owner() const = 0;
  // Whether that is a process other than this one.
  virtual bool is_borrowed() const { return false; }
  // What it keeps of the task.
  virtual size_t bytes() const { return 0; }
};

// One object to which this process refers; the last copy of the pointer gives the reference back. Thread safe.
class StoredObject {
 public:
  virtual ~StoredObject();
  virtual const ObjectKey& key() const = 0;
  virtual const std::string& address() const = 0;  // Of its node, for stores of other nodes.
  // Waits until it can be read here; brings it back where it was spilled to disk. kObjectLost: also where volador::free gave it up;
  // kStoreFull: no room for it here; kUnavailable: this node's store has ended; kTimeout.
  virtual Result<ObjectView> view(std::optional<std::chrono::nanoseconds> timeout) const = 0;
  // Whether it has come to this node, in memory or on disk, or is lost.
  virtual bool is_ready() const = 0;

  struct Origin {
    std::shared_ptr<ObjectOrigin> made_by;  // Null: it cannot be made again.
    size_t index = 0;
  };
  // Of this object, however often it is acquired anew while this one lives.
  void set_origin(Origin origin) const;
  Origin origin() const;
  // What was made in its place lives as long as this one.
  void set_replacement(std::shared_ptr<const StoredObject> made) const;
  std::shared_ptr<const StoredObject> replacement() const;
  // That of an earlier one of the same key, where this has none.
  void find_origin() const;

 private:
  mutable Origin origin_;
  mutable std::shared_ptr<const StoredObject> replacement_;
  mutable ObjectKey origin_key_;  // Where it has one.
};

// The object, or what was made in its place.
std::shared_ptr<const StoredObject> newest(std::shared_ptr<const StoredObject> object);

// The origins of objects that were passed on stay known for a while after this process has given up its own references, so that others can
// have them made again: kPassedOnOriginsMax, of kPassedOnBytesMax together; the one that was passed on longest ago is forgotten.
inline constexpr size_t kPassedOnOriginsMax = 10'000;
inline constexpr size_t kPassedOnBytesMax = size_t{64} << 20;
void keep_origin(const StoredObject& passed_on);
// That of an object of this name; made_by is null where nothing is known.
StoredObject::Origin known_origin(const ObjectKey& key);

// Space for an object that is being written; without seal() it is given back.
class ObjectDraft {
 public:
  virtual ~ObjectDraft() = default;
  virtual std::span<std::byte> space() const = 0;  // Aligned to 64 bytes.
};

// Thread safe.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Waits for room. kStoreFull names the largest holders; kUnavailable: there is no store on this machine.
  virtual Result<std::unique_ptr<ObjectDraft>> create(size_t bytes) = 0;
  // Final from now on. `contents`: the references and handles in it, which is emptied: they live as long as the object.
  virtual Result<std::shared_ptr<const StoredObject>> seal(std::unique_ptr<ObjectDraft> draft, const PutSite& site, RefScope* contents = nullptr) = 0;
  // One that came from another process. Returns at once. `claim`: it came with an answer.
  virtual std::shared_ptr<const StoredObject> acquire(const ObjectKey& key, const std::string& address, bool claim) = 0;
  // It leaves with an answer, whose receiver will claim it.
  virtual void lend(const StoredObject& object) = 0;
  // Gives it up for all who refer to it. Those that read it at this moment read on; everybody else gets kObjectLost.
  virtual void free(const StoredObject& object) = 0;
  // Calls once, on any thread, when the object is_ready(): at once where it is.
  virtual void when_ready(const StoredObject& object, std::function<void()> call) = 0;
  // Returns when the store has taken note of every reference that was acquired.
  virtual void settle() = 0;
};

// What is encoded or decoded on this thread while it lives: the references that left, so that they can be kept until they have
// arrived, or how those that come are to be counted. Scopes nest; the innermost one counts.
class RefScope {
 public:
  enum class Kind : uint8_t {
    kSend,           // Arguments, an answer, or an object that is put.
    kReceiveAnswer,  // References in it were lent: claim them.
    kReadObject,     // What it refers to lives as long as the object that is read.
  };
  // `received`: gets the objects to which what is decoded refers, in their order; of an answer each once.
  explicit RefScope(Kind kind, std::vector<std::shared_ptr<const StoredObject>>* received = nullptr);
  ~RefScope();
  RefScope(const RefScope&) = delete;
  RefScope& operator=(const RefScope&) = delete;

  static RefScope* current();
  // One that was encoded.
  void add(std::shared_ptr<const StoredObject> object);
  // A handle on an actor that was encoded, and what keeps the actor meanwhile. Repeated for one actor: no effect.
  void add(const ActorId& actor, std::shared_ptr<const void> hold);
  // Something else that is to be kept as long.
  void keep(std::shared_ptr<const void> what) { kept_.push_back(std::move(what)); }
  // One that was decoded; `claimed` once.
  void receive(std::shared_ptr<const StoredObject> object, bool claimed) {
    if (received_ != nullptr && (claimed || kind_ == Kind::kReadObject)) received_->push_back(std::move(object));
  }
  // Whether this one is to be claimed: once for each object, and each actor, of an answer.
  bool claims(const ObjectKey& key);
  bool claims(const ActorId& actor);

  bool empty() const { return objects_.empty() && kept_.empty(); }
  const std::vector<std::shared_ptr<const StoredObject>>& objects() const { return objects_; }
  const std::vector<ActorId>& actors() const { return actors_; }
  // The same as something to hold on to; null where there is nothing.
  std::shared_ptr<const void> take();

 private:
  // Names that were seen: few as a rule, but an object may refer to a million others.
  template <class Key>
  class Seen {
   public:
    // False: it was seen before.
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
    std::unordered_set<Key> many_;  // All, where there are more than a few.
  };

  const Kind kind_;
  RefScope* const outer_;
  std::vector<std::shared_ptr<const StoredObject>>* const received_;
  std::vector<std::shared_ptr<const StoredObject>> objects_;
  Seen<ObjectKey> seen_objects_;  // Sent, or claimed.
  Seen<ActorId> seen_actors_;
  std::vector<std::shared_ptr<const void>> kept_;
  std::vector<ActorId> actors_;  // Sent.
};

}  // namespace volador
