// Conversion between ObjectKey and its protobuf message.
#pragma once

#include "runtime/protocol/store.pb.h"
#include "runtime/store/object_key.h"

namespace volador {

// Without the address, which only other nodes' stores need.
inline protocol::ObjectName to_message(const ObjectKey& key) {
  protocol::ObjectName name;
  name.set_node_id(raw(key.node));
  name.set_writer(key.writer);
  name.set_number(key.number);
  return name;
}

inline ObjectKey object_key_of(const protocol::ObjectName& name) {
  return {.node = id_from_raw<NodeId>(name.node_id()), .writer = name.writer(), .number = name.number()};
}

}  // namespace volador
