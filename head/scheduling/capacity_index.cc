#include "head/scheduling/capacity_index.h"

#include <limits>
#include <string_view>

#include "runtime/result.h"

namespace volador::head {
namespace {

constexpr Amount kLowest = std::numeric_limits<Amount>::min();

// A lower bound of all entries with at least these three amounts.
Capacity first_with(Amount gpus, Amount cpus, Amount memory) {
  return Capacity{
      .gpus = gpus, .cpus = cpus, .memory = memory, .custom = {}, .devices_free = kLowest, .largest_part = kLowest};
}

bool is_built_in(std::string_view resource) { return resource == "cpus" || resource == "gpus" || resource == "memory"; }

}  // namespace

void ResourceNames::acquire(const ResourceSet& set) {
  for (const auto& [name, amount] : set.entries()) {
    if (is_built_in(name)) continue;
    const auto [entry, added] = numbers_.try_emplace(name);
    if (added && unused_.empty()) {
      entry->second.number = numbers_.size() - 1;
    } else if (added) {
      entry->second.number = *unused_.begin();
      unused_.erase(unused_.begin());
    }
    ++entry->second.uses;
  }
}

void ResourceNames::release(const ResourceSet& set) {
  for (const auto& [name, amount] : set.entries()) {
    if (is_built_in(name)) continue;
    const auto entry = numbers_.find(name);
    VOLADOR_CHECK(entry != numbers_.end() && entry->second.uses > 0, name);
    if (--entry->second.uses > 0) continue;
    unused_.insert(entry->second.number);
    numbers_.erase(entry);
  }
}

std::vector<Amount> ResourceNames::custom(const ResourceSet& set) const {
  std::vector<Amount> amounts;
  for (const auto& [name, amount] : set.entries()) {
    if (is_built_in(name)) continue;
    const size_t at = numbers_.at(name).number;
    if (amounts.size() <= at) amounts.resize(at + 1);
    amounts[at] = amount;
  }
  return amounts;
}

bool Demand::fits(const Capacity& capacity) const {
  if (gpus > capacity.gpus || cpus > capacity.cpus || memory > capacity.memory) return false;
  if (gpus >= kUnit) {
    if (capacity.devices_free < gpus / kUnit) return false;
  } else if (gpus > 0 && capacity.devices_free == 0 && capacity.largest_part < gpus) {
    return false;
  }
  for (size_t at = 0; at < custom.size(); ++at) {
    if (custom[at] > (at < capacity.custom.size() ? capacity.custom[at] : 0)) return false;
  }
  return true;
}

void CapacityIndex::set(Slot slot, Capacity capacity) {
  const auto known = slots_.find(slot);
  if (known != slots_.end()) {
    if (known->second->first == capacity) return;
    remove(slot);
  }
  const auto entry = entries_.try_emplace(std::move(capacity)).first;
  entry->second.insert(slot);
  slots_[slot] = entry;
}

void CapacityIndex::remove(Slot slot) {
  const auto known = slots_.find(slot);
  if (known == slots_.end()) return;
  known->second->second.erase(slot);
  if (known->second->second.empty()) entries_.erase(known->second);
  slots_.erase(known);
}

std::optional<CapacityIndex::Slot> CapacityIndex::find(const Demand& demand,
                                                       const std::function<bool(uint32_t)>& labels_match,
                                                       const std::function<bool(Slot)>& accepts) const {
  auto entry = entries_.lower_bound(first_with(demand.gpus, demand.cpus, demand.memory));
  while (entry != entries_.end()) {
    const Capacity& capacity = entry->first;
    if (capacity.cpus < demand.cpus) {
      entry = entries_.lower_bound(first_with(capacity.gpus, demand.cpus, demand.memory));
      continue;
    }
    if (capacity.memory < demand.memory) {
      entry = entries_.lower_bound(first_with(capacity.gpus, capacity.cpus, demand.memory));
      continue;
    }
    if (demand.fits(capacity) && labels_match(capacity.labels)) {
      for (const Slot slot : entry->second) {
        if (accepts(slot)) return slot;
      }
    }
    ++entry;
  }
  return std::nullopt;
}

}  // namespace volador::head
