// Index of nodes by free capacity: finds the fullest node that fits a request without scanning all nodes.
// Pure: no clock, thread, I/O or randomness.
//
// Nodes with the same free amounts and labels share an entry; entries are ordered by free GPUs, then CPUs, memory and
// the rest. The first entry that fits is the fullest: a request without GPUs gets the nodes with the fewest, and all
// equally full nodes are skipped at once. A look-up costs O(distinct free GPU and CPU amounts × log nodes).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/resources.h"

namespace volador::head {

// Maps names of custom resources to small numbers, so that amounts can be compared as vectors. A number stays with its
// name while the name is in use and is reused afterwards.
class ResourceNames {
 public:
  // Each call must be matched by one release() of the same set.
  void acquire(const ResourceSet& set);
  void release(const ResourceSet& set);
  bool knows(const std::string& name) const { return numbers_.contains(name); }
  size_t size() const { return numbers_.size(); }
  // Dense amounts of the custom resources of `set`; its names must be in use.
  std::vector<Amount> custom(const ResourceSet& set) const;

 private:
  struct Entry {
    size_t number = 0;
    size_t uses = 0;
  };
  std::map<std::string, Entry, std::less<>> numbers_;
  std::set<size_t> unused_;  // Free numbers below the highest assigned one.
};

// Free (or total) capacity of a node.
struct Capacity {
  Amount gpus = 0;
  Amount cpus = 0;
  Amount memory = 0;
  std::vector<Amount> custom;  // Missing entries are 0.
  int64_t devices_free = 0;    // Unused GPUs.
  Amount largest_part = 0;     // Largest free fraction of a GPU in use.
  uint32_t labels = 0;         // Number of the node's set of labels.

  auto operator<=>(const Capacity&) const = default;
};

// The amounts a request asks for.
struct Demand {
  Amount gpus = 0;
  Amount cpus = 0;
  Amount memory = 0;
  std::vector<Amount> custom;

  bool fits(const Capacity& capacity) const;
};

// Nodes ordered by capacity.
class CapacityIndex {
 public:
  using Slot = uint32_t;  // A node; ties go to the lowest slot.

  // Adds the node, or updates its entry.
  void set(Slot slot, Capacity capacity);
  void remove(Slot slot);  // Unknown slots are ignored.
  bool contains(Slot slot) const { return slots_.contains(slot); }

  // The fullest node that fits. `labels_match` is called once per entry, `accepts` for the entry's nodes in order.
  std::optional<Slot> find(const Demand& demand, const std::function<bool(uint32_t labels)>& labels_match,
                           const std::function<bool(Slot)>& accepts) const;
  size_t size() const { return slots_.size(); }

 private:
  using Entries = std::map<Capacity, std::set<Slot>>;
  Entries entries_;
  std::unordered_map<Slot, Entries::iterator> slots_;
};

}  // namespace volador::head
