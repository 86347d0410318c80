#include "runtime/store/object_store.h"

#include <algorithm>
#include <iterator>

namespace volador {
namespace {
thread_local RefScope* innermost = nullptr;
}

RefScope::RefScope(Kind kind) : kind_(kind), outer_(innermost) { innermost = this; }
RefScope::~RefScope() { innermost = outer_; }
RefScope* RefScope::current() { return innermost; }

void RefScope::add(std::shared_ptr<const StoredObject> object) {
  for (const auto& known : objects_) {
    if (known->key() == object->key()) return;
  }
  objects_.push_back(std::move(object));
}

bool RefScope::claims(const ObjectKey& key) {
  if (kind_ != Kind::kReceiveAnswer || std::find(claimed_.begin(), claimed_.end(), key) != claimed_.end()) return false;
  claimed_.push_back(key);
  return true;
}

void RefScope::add(const ActorId& actor, std::shared_ptr<const void> hold) {
  if (std::find(actors_.begin(), actors_.end(), actor) != actors_.end()) return;
  actors_.push_back(actor);
  keep(std::move(hold));
}

bool RefScope::claims(const ActorId& actor) {
  if (kind_ != Kind::kReceiveAnswer || std::find(actors_.begin(), actors_.end(), actor) != actors_.end()) return false;
  actors_.push_back(actor);
  return true;
}

std::shared_ptr<const void> RefScope::take() {
  if (empty()) return nullptr;
  std::vector<std::shared_ptr<const void>> all(objects_.begin(), objects_.end());
  std::move(kept_.begin(), kept_.end(), std::back_inserter(all));
  objects_.clear();
  kept_.clear();
  return std::make_shared<const std::vector<std::shared_ptr<const void>>>(std::move(all));
}

}  // namespace volador
