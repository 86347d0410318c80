#include "head/nodes/lease_table.h"

#include <algorithm>

namespace volador::head {

void LeaseTable::acknowledged(NodeId node, BootTime now) {
  auto [entry, added] = ends_.try_emplace(node, now + span_);
  if (!added) entry->second = std::max(entry->second, now + span_);
}

void LeaseTable::await(NodeId node, BootTime until) { ends_[node] = until; }

void LeaseTable::forget(NodeId node) { ends_.erase(node); }

void LeaseTable::own_pause(BootTime now) {
  for (auto& [node, end] : ends_) end = std::max(end, now + span_);
}

BootTime LeaseTable::ends(NodeId node) const {
  const auto found = ends_.find(node);
  return found == ends_.end() ? BootTime{} : found->second;
}

std::vector<NodeId> LeaseTable::ended(BootTime now) const {
  std::vector<NodeId> nodes;
  for (const auto& [node, end] : ends_) {
    if (end <= now) nodes.push_back(node);
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace volador::head
