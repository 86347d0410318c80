// Conversion between ResourceSet and its protobuf message. Include from .cc files only: it brings protobuf.
#pragma once

#include "runtime/protocol/control.pb.h"
#include "runtime/resources.h"

namespace volador {

inline protocol::ResourceMap to_message(const ResourceSet& resources) {
  protocol::ResourceMap map;
  for (const auto& [name, amount] : resources.entries()) (*map.mutable_amounts())[name] = amount;
  return map;
}

// Unchecked; for messages of the own head. Untrusted maps are checked first (head/kernel/wire.h).
inline ResourceSet resources_of(const protocol::ResourceMap& map) {
  ResourceSet set;
  for (const auto& [name, amount] : map.amounts()) set.set(name, amount);
  return set;
}

}  // namespace volador
