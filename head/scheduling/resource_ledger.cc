#include "head/scheduling/resource_ledger.h"

#include <fmt/format.h>

#include <algorithm>

namespace volador::head {
namespace {

Amount overdraft(const ResourcePool& pool) { return std::max<Amount>(0, -pool.free.get("cpus")); }

}  // namespace

void ResourceLedger::note_overdraft(const Node& node, Amount before) { overdrawn_cpus_ += overdraft(node) - before; }

void ResourceLedger::set_node(NodeId id, ResourceSet total, std::vector<int32_t> gpus) {
  remove_node(id);
  Node& node = nodes_[id];
  static_cast<ResourcePool&>(node) = ResourcePool::of_node(std::move(total), std::move(gpus));
  total_ += node.total;
}

void ResourceLedger::remove_node(NodeId id) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  while (!found->second.holders.empty()) release(*found->second.holders.begin());
  total_ -= found->second.total;
  nodes_.erase(found);
}

bool ResourceLedger::set_closed(NodeId node, const std::set<int32_t>& gpus) {
  const auto found = nodes_.find(node);
  return found != nodes_.end() && found->second.set_closed(gpus);
}

std::optional<std::vector<int32_t>> ResourceLedger::grant(NodeId node_id, HolderId holder, const ResourceSet& asked) {
  const auto found = nodes_.find(node_id);
  if (found == nodes_.end() || grants_.contains(holder)) return std::nullopt;
  auto gpus = found->second.take(asked);
  if (gpus) write_down(node_id, found->second, holder, asked, *gpus);
  return gpus;
}

bool ResourceLedger::adopt(NodeId node_id, HolderId holder, const ResourceSet& held, const std::vector<int32_t>& gpus) {
  const auto found = nodes_.find(node_id);
  if (found == nodes_.end() || grants_.contains(holder)) return false;
  const Amount before = overdraft(found->second);
  if (!found->second.take_these(held, gpus)) return false;
  note_overdraft(found->second, before);
  write_down(node_id, found->second, holder, held, gpus);
  return true;
}

void ResourceLedger::write_down(NodeId id, Node& node, HolderId holder, const ResourceSet& held,
                                const std::vector<int32_t>& gpus) {
  used_ += held;
  node.holders.insert(holder);
  grants_.emplace(holder, Grant{id, held, gpus, {}});
}

std::optional<NodeId> ResourceLedger::lend_cpus(HolderId holder) { return move_cpus(holder, true); }
std::optional<NodeId> ResourceLedger::take_back_cpus(HolderId holder) { return move_cpus(holder, false); }

std::optional<NodeId> ResourceLedger::move_cpus(HolderId holder, bool lend) {
  const auto found = grants_.find(holder);
  if (found == grants_.end()) return std::nullopt;
  Grant& grant = found->second;
  const ResourceSet cpus = lend ? pass_cpus(grant.held, grant.lent) : pass_cpus(grant.lent, grant.held);
  if (cpus.empty()) return std::nullopt;
  Node& node = nodes_.at(grant.node);
  const Amount before = overdraft(node);
  if (lend) {
    node.put_back(cpus, {});
    used_ -= cpus;
    node.lent_cpus += cpus.get("cpus");
  } else {
    node.overdraw(cpus);
    used_ += cpus;
    node.lent_cpus -= cpus.get("cpus");
  }
  note_overdraft(node, before);
  return grant.node;
}

std::optional<NodeId> ResourceLedger::release(HolderId holder) {
  const auto found = grants_.find(holder);
  if (found == grants_.end()) return std::nullopt;
  const Grant grant = std::move(found->second);
  grants_.erase(found);
  Node& node = nodes_.at(grant.node);
  node.holders.erase(holder);
  const Amount before = overdraft(node);
  node.put_back(grant.held, grant.gpus);
  node.lent_cpus -= grant.lent.get("cpus");
  note_overdraft(node, before);
  used_ -= grant.held;
  return grant.node;
}

const ResourceLedger::Node* ResourceLedger::find(NodeId id) const {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : &found->second;
}

std::optional<NodeId> ResourceLedger::node_of(HolderId holder) const {
  const auto found = grants_.find(holder);
  if (found == grants_.end()) return std::nullopt;
  return found->second.node;
}

std::vector<Occupant> ResourceLedger::occupants(NodeId id) const {
  std::vector<Occupant> occupants;
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return occupants;
  for (const HolderId holder : found->second.holders) {
    occupants.push_back({grants_.at(holder).held});
  }
  return occupants;
}

void ResourceLedger::check_invariants() const {
  ResourceSet total;
  ResourceSet used;
  std::map<NodeId, ResourceSet> held;
  std::map<NodeId, Amount> lent;
  std::map<NodeId, std::map<int32_t, Amount>> parts;
  for (const auto& [holder, grant] : grants_) {
    const auto node = nodes_.find(grant.node);
    VOLADOR_CHECK(node != nodes_.end() && node->second.holders.contains(holder), to_string(holder));
    held[grant.node] += grant.held;
    lent[grant.node] += grant.lent.get("cpus");
    for (const int32_t index : grant.gpus) parts[grant.node][index] += part_of_device(grant.held.get("gpus"));
  }
  size_t holders = 0;
  Amount overdrawn = 0;
  for (const auto& [id, node] : nodes_) {
    overdrawn += overdraft(node);
    holders += node.holders.size();
    total += node.total;
    used += node.used;
    ResourceSet sum = node.used;
    sum += node.free;
    sum.set("gpus", sum.get("gpus") + node.withheld);
    VOLADOR_CHECK(sum == node.total, fmt::format("{} of {}", to_string(sum), to_string(node.total)));
    VOLADOR_CHECK(node.used == held[id], to_string(node.used));
    VOLADOR_CHECK(node.lent_cpus == lent[id], format_amount(node.lent_cpus));
    for (const auto& [name, amount] : node.free.entries()) VOLADOR_CHECK(amount >= 0 || name == "cpus", name);
    for (const ResourcePool::Device& device : node.devices) {
      VOLADOR_CHECK(device.used >= 0 && device.used <= kUnit,
                    fmt::format("device {} used {}", device.index, device.used));
      VOLADOR_CHECK(device.used == parts[id][device.index],
                    fmt::format("device {} used {}", device.index, device.used));
    }
  }
  VOLADOR_CHECK(holders == grants_.size(), fmt::format("{} {}", holders, grants_.size()));
  VOLADOR_CHECK(total == total_ && used == used_, to_string(used_));
  VOLADOR_CHECK(overdrawn == overdrawn_cpus_, format_amount(overdrawn_cpus_));
}

}  // namespace volador::head
