#include "runtime/store/object_store.h"

#include <algorithm>

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

std::shared_ptr<const void> RefScope::take() {
  if (objects_.empty()) return nullptr;
  return std::make_shared<const std::vector<std::shared_ptr<const StoredObject>>>(std::move(objects_));
}

}  // namespace volador
