#include "runtime/store/object_store.h"

#include <algorithm>
#include <iterator>
#include <list>
#include <mutex>
#include <unordered_map>

namespace volador {
namespace {
thread_local RefScope* innermost = nullptr;

// One mutex for all objects: origins are set with task results and read when an object is lost.
std::mutex& origins_mutex() {
  static std::mutex mutex;
  return mutex;
}
struct KnownOrigin {
  std::weak_ptr<ObjectOrigin> made_by;
  size_t index = 0;
};
// Guarded by origins_mutex(). The next read of a lost object's reference acquires it anew.
std::unordered_map<ObjectKey, KnownOrigin>& known_origins() {
  // Leaked: objects may be destroyed during process exit.
  static auto* all = new std::unordered_map<ObjectKey, KnownOrigin>();
  return *all;
}

// Origins of objects that were passed on, newest first. Guarded by origins_mutex().
class PassedOn {
 public:
  void add(const ObjectKey& key, std::shared_ptr<ObjectOrigin> origin,
           std::vector<std::shared_ptr<ObjectOrigin>>& ended) {
    remove(key, ended);
    bytes_ += origin->bytes();
    entries_.push_front({key, std::move(origin)});
    places_[key] = entries_.begin();
    while (entries_.size() > kPassedOnOriginsMax || (bytes_ > kPassedOnBytesMax && entries_.size() > 1))
      remove(ObjectKey(entries_.back().key), ended);
  }
  void remove(const ObjectKey& key, std::vector<std::shared_ptr<ObjectOrigin>>& ended) {
    const auto place = places_.extract(key);
    if (place.empty()) return;
    bytes_ -= place.mapped()->origin->bytes();
    ended.push_back(std::move(place.mapped()->origin));
    entries_.erase(place.mapped());
    const auto known = known_origins().find(key);
    if (known != known_origins().end() && ended.back().use_count() == 1) known_origins().erase(known);
  }

 private:
  struct Entry {
    ObjectKey key;
    std::shared_ptr<ObjectOrigin> origin;
  };
  std::list<Entry> entries_;
  std::unordered_map<ObjectKey, std::list<Entry>::iterator> places_;
  size_t bytes_ = 0;
};
PassedOn& passed_on() {
  static auto* all = new PassedOn();  // Leaked, as in known_origins().
  return *all;
}
}  // namespace

void keep_origin(const StoredObject& object) {
  const auto origin = object.origin();
  if (!origin.made_by || origin.made_by->is_borrowed()) return;
  std::vector<std::shared_ptr<ObjectOrigin>> ended;
  const std::lock_guard<std::mutex> hold(origins_mutex());
  passed_on().add(object.key(), origin.made_by, ended);
}

StoredObject::Origin known_origin(const ObjectKey& key) {
  const std::lock_guard<std::mutex> hold(origins_mutex());
  const auto known = known_origins().find(key);
  if (known == known_origins().end()) return {};
  return {known->second.made_by.lock(), known->second.index};
}

StoredObject::~StoredObject() {
  if (!origin_.made_by) return;
  origin_.made_by.reset();
  const std::lock_guard<std::mutex> hold(origins_mutex());
  const auto known = known_origins().find(origin_key_);
  if (known != known_origins().end() && known->second.made_by.expired()) known_origins().erase(known);
}

void StoredObject::set_origin(Origin origin) const {
  const ObjectKey& its_key = key();
  std::vector<std::shared_ptr<ObjectOrigin>> ended;
  {
    const std::lock_guard<std::mutex> hold(origins_mutex());
    if (origin.made_by) {
      known_origins()[its_key] = {origin.made_by, origin.index};
      origin_key_ = its_key;
    } else {
      passed_on().remove(its_key, ended);
      known_origins().erase(its_key);
    }
    std::swap(origin_, origin);
  }  // The previous origin is destroyed without the lock.
}

void StoredObject::find_origin() const {
  const ObjectKey& its_key = key();
  const std::lock_guard<std::mutex> hold(origins_mutex());
  if (known_origins().empty() || origin_.made_by) return;
  const auto known = known_origins().find(its_key);
  if (known == known_origins().end()) return;
  origin_ = {known->second.made_by.lock(), known->second.index};
  origin_key_ = its_key;
}

StoredObject::Origin StoredObject::origin() const {
  const std::lock_guard<std::mutex> hold(origins_mutex());
  return origin_;
}

void StoredObject::set_replacement(std::shared_ptr<const StoredObject> made) const {
  if (made.get() == this) return;
  const std::lock_guard<std::mutex> hold(origins_mutex());
  replacement_.swap(made);
}

std::shared_ptr<const StoredObject> StoredObject::replacement() const {
  const std::lock_guard<std::mutex> hold(origins_mutex());
  return replacement_;
}

std::shared_ptr<const StoredObject> newest(std::shared_ptr<const StoredObject> object) {
  while (object) {
    auto next = object->replacement();
    if (!next) {
      const auto origin = object->origin();
      next = origin.made_by ? origin.made_by->replacement(origin.index) : nullptr;
    }
    if (!next || next == object) break;
    object = std::move(next);
  }
  return object;
}

RefScope::RefScope(Kind kind, std::vector<std::shared_ptr<const StoredObject>>* received)
    : kind_(kind), outer_(innermost), received_(received) {
  innermost = this;
}
RefScope::~RefScope() { innermost = outer_; }
RefScope* RefScope::current() { return innermost; }

void RefScope::add(std::shared_ptr<const StoredObject> object) {
  if (seen_objects_.add(object->key())) objects_.push_back(std::move(object));
}

bool RefScope::claims(const ObjectKey& key) { return kind_ == Kind::kReceiveAnswer && seen_objects_.add(key); }

void RefScope::add(const ActorId& actor, std::shared_ptr<const void> hold) {
  if (!seen_actors_.add(actor)) return;
  actors_.push_back(actor);
  keep(std::move(hold));
}

bool RefScope::claims(const ActorId& actor) { return kind_ == Kind::kReceiveAnswer && seen_actors_.add(actor); }

std::shared_ptr<const void> RefScope::take() {
  if (empty()) return nullptr;
  std::vector<std::shared_ptr<const void>> all(objects_.begin(), objects_.end());
  std::move(kept_.begin(), kept_.end(), std::back_inserter(all));
  objects_.clear();
  kept_.clear();
  return std::make_shared<const std::vector<std::shared_ptr<const void>>>(std::move(all));
}

}  // namespace volador
