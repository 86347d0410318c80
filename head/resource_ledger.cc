#include "head/resource_ledger.h"

#include <fmt/format.h>

#include <algorithm>

namespace volador::head {
namespace {

// What one device gives to a request: a whole device, or the fraction asked.
Amount part_of_device(Amount gpus_asked) { return std::min(gpus_asked, kUnit); }

size_t devices_needed(Amount gpus_asked) {
  return gpus_asked <= 0 ? 0 : static_cast<size_t>((gpus_asked + kUnit - 1) / kUnit);
}

std::vector<int32_t> choose_devices(const std::vector<ResourceLedger::Device>& devices, Amount asked) {
  std::vector<int32_t> chosen;
  if (asked >= kUnit) {
    for (const auto& device : devices) {
      if (chosen.size() == devices_needed(asked)) break;
      if (device.used == 0) chosen.push_back(device.index);
    }
    return chosen;
  }
  const ResourceLedger::Device* fullest = nullptr;
  for (const auto& device : devices) {
    if (kUnit - device.used < asked) continue;
    if (fullest == nullptr || device.used > fullest->used) fullest = &device;
  }
  if (fullest != nullptr) chosen.push_back(fullest->index);
  return chosen;
}

}  // namespace

int64_t ResourceLedger::Node::devices_free() const {
  return std::count_if(devices.begin(), devices.end(), [](const Device& device) { return device.used == 0; });
}

Amount ResourceLedger::Node::largest_part() const {
  Amount most = 0;
  for (const Device& device : devices) {
    if (device.used > 0) most = std::max(most, kUnit - device.used);
  }
  return most;
}

bool ResourceLedger::Node::fits(const ResourceSet& asked) const {
  if (!asked.fits_in(free)) return false;
  const Amount gpus = asked.get("gpus");
  return gpus == 0 || choose_devices(devices, gpus).size() == devices_needed(gpus);
}

void ResourceLedger::set_node(NodeId id, ResourceSet total, std::vector<int32_t> gpus) {
  remove_node(id);
  std::sort(gpus.begin(), gpus.end());
  gpus.erase(std::unique(gpus.begin(), gpus.end()), gpus.end());
  total.set("gpus", static_cast<Amount>(gpus.size()) * kUnit);
  Node& node = nodes_[id];
  for (const int32_t index : gpus) node.devices.push_back({.index = index});
  total_ += total;
  node.free = total;
  node.total = std::move(total);
}

void ResourceLedger::remove_node(NodeId id) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  while (!found->second.holders.empty()) release(*found->second.holders.begin());
  total_ -= found->second.total;
  nodes_.erase(found);
}

std::optional<std::vector<int32_t>> ResourceLedger::grant(NodeId node_id, ActorId actor, const ResourceSet& asked) {
  const auto found = nodes_.find(node_id);
  if (found == nodes_.end() || grants_.contains(actor) || !asked.fits_in(found->second.free)) return std::nullopt;
  Node& node = found->second;
  std::vector<int32_t> gpus;
  if (const Amount asked_gpus = asked.get("gpus"); asked_gpus > 0) {
    gpus = choose_devices(node.devices, asked_gpus);
    if (gpus.size() != devices_needed(asked_gpus)) return std::nullopt;
  }
  book(node, asked, gpus, +1);
  node.holders.insert(actor);
  grants_.emplace(actor, Grant{node_id, asked, gpus});
  return gpus;
}

bool ResourceLedger::adopt(NodeId node_id, ActorId actor, const ResourceSet& held, const std::vector<int32_t>& gpus) {
  const auto found = nodes_.find(node_id);
  if (found == nodes_.end() || grants_.contains(actor) || !held.fits_in(found->second.free)) return false;
  Node& node = found->second;
  const Amount asked_gpus = held.get("gpus");
  if (gpus.size() != devices_needed(asked_gpus)) return false;
  if (std::set<int32_t>(gpus.begin(), gpus.end()).size() != gpus.size()) return false;
  for (const int32_t index : gpus) {
    const auto device =
        std::find_if(node.devices.begin(), node.devices.end(), [&](const Device& d) { return d.index == index; });
    if (device == node.devices.end() || kUnit - device->used < part_of_device(asked_gpus)) return false;
  }
  book(node, held, gpus, +1);
  node.holders.insert(actor);
  grants_.emplace(actor, Grant{node_id, held, gpus});
  return true;
}

std::optional<NodeId> ResourceLedger::release(ActorId actor) {
  const auto found = grants_.find(actor);
  if (found == grants_.end()) return std::nullopt;
  const Grant grant = std::move(found->second);
  grants_.erase(found);
  Node& node = nodes_.at(grant.node);
  node.holders.erase(actor);
  book(node, grant.held, grant.gpus, -1);
  return grant.node;
}

void ResourceLedger::book(Node& node, const ResourceSet& held, const std::vector<int32_t>& gpus, int sign) {
  const Amount part = part_of_device(held.get("gpus"));
  for (Device& device : node.devices) {
    if (std::find(gpus.begin(), gpus.end(), device.index) != gpus.end()) device.used += sign * part;
  }
  if (sign > 0) {
    node.used += held;
    node.free -= held;
    used_ += held;
  } else {
    node.used -= held;
    node.free += held;
    used_ -= held;
  }
}

const ResourceLedger::Node* ResourceLedger::find(NodeId id) const {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : &found->second;
}

std::optional<NodeId> ResourceLedger::node_of(ActorId actor) const {
  const auto found = grants_.find(actor);
  if (found == grants_.end()) return std::nullopt;
  return found->second.node;
}

void ResourceLedger::check_invariants() const {
  ResourceSet total;
  ResourceSet used;
  std::map<NodeId, ResourceSet> held;
  std::map<NodeId, std::map<int32_t, Amount>> parts;
  for (const auto& [actor, grant] : grants_) {
    const auto node = nodes_.find(grant.node);
    VOLADOR_CHECK(node != nodes_.end() && node->second.holders.contains(actor), to_string(actor));
    held[grant.node] += grant.held;
    for (const int32_t index : grant.gpus) parts[grant.node][index] += part_of_device(grant.held.get("gpus"));
  }
  size_t holders = 0;
  for (const auto& [id, node] : nodes_) {
    holders += node.holders.size();
    total += node.total;
    used += node.used;
    ResourceSet sum = node.used;
    sum += node.free;
    VOLADOR_CHECK(sum == node.total, fmt::format("{} of {}", to_string(sum), to_string(node.total)));
    VOLADOR_CHECK(node.used == held[id], to_string(node.used));
    for (const auto& [name, amount] : node.free.entries()) VOLADOR_CHECK(amount >= 0, name);
    for (const Device& device : node.devices) {
      VOLADOR_CHECK(device.used >= 0 && device.used <= kUnit, fmt::format("device {} used {}", device.index, device.used));
      VOLADOR_CHECK(device.used == parts[id][device.index], fmt::format("device {} used {}", device.index, device.used));
    }
  }
  VOLADOR_CHECK(holders == grants_.size(), fmt::format("{} {}", holders, grants_.size()));
  VOLADOR_CHECK(total == total_ && used == used_, to_string(used_));
}

}  // namespace volador::head
