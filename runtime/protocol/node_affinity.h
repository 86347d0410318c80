// Conversion between NodeAffinity and its protobuf message. Include from .cc files only: it brings protobuf.
#pragma once

#include "runtime/node_affinity.h"
#include "runtime/protocol/control.pb.h"

namespace volador {

inline protocol::LabelRule to_message(const LabelRule& rule) {
  protocol::LabelRule message;
  message.set_key(rule.key);
  message.set_op(static_cast<protocol::LabelRule::Op>(rule.value.op));
  message.mutable_values()->Add(rule.value.values.begin(), rule.value.values.end());
  return message;
}

inline protocol::NodeAffinity to_message(const NodeAffinity& wishes) {
  protocol::NodeAffinity message;
  for (const LabelRule& rule : wishes.labels) *message.add_labels() = to_message(rule);
  message.set_node(wishes.node);
  message.set_node_preferred(wishes.node_preferred);
  message.set_apart(wishes.apart);
  return message;
}

// A rule of an unknown kind is returned without values; check() rejects it.
inline std::vector<LabelRule> labels_of(const google::protobuf::RepeatedPtrField<protocol::LabelRule>& messages) {
  std::vector<LabelRule> rules;
  for (const protocol::LabelRule& message : messages) {
    LabelValue value(LabelValue::Op::kIn, {});
    if (protocol::LabelRule::Op_IsValid(message.op()))
      value = {static_cast<LabelValue::Op>(message.op()), {message.values().begin(), message.values().end()}};
    rules.push_back({message.key(), std::move(value)});
  }
  return rules;
}

inline NodeAffinity wishes_of(const protocol::NodeAffinity& message) {
  return {.labels = labels_of(message.labels()),
          .node = message.node(),
          .node_preferred = message.node_preferred(),
          .apart = message.apart()};
}

}  // namespace volador
