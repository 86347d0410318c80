// Resources in messages of the control plane, and back. Include from .cc files only: it brings protobuf.
#pragma once

#include "runtime/protocol/control.pb.h"
#include "runtime/resources.h"

namespace volador {

inline protocol::ResourceMap to_message(const ResourceSet& resources) {
  protocol::ResourceMap map;
  for (const auto& [name, amount] : resources.entries()) (*map.mutable_amounts())[name] = amount;
  return map;
}

// As it stands: for messages of the own head. What a peer may make up is checked first (head/kernel/wire.h).
inline ResourceSet resources_of(const protocol::ResourceMap& map) {
  ResourceSet set;
  for (const auto& [name, amount] : map.amounts()) set.set(name, amount);
  return set;
}

}  // namespace volador
