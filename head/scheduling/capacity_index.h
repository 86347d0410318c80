// Nodes by what is free on them: finds the fullest node that fits a request without looking at every node.
// Pure: no clock, thread, I/O or randomness.
//
// Nodes with the same free amounts and labels share an entry; entries are ordered by free GPUs, then CPUs, memory and the rest.
// The first entry that fits is the fullest: a request without GPUs lands on the nodes with the fewest, and full nodes are
// skipped as one. A look-up costs O(distinct free GPU and CPU amounts × log nodes).
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

// Names of custom resources as small numbers, so that amounts are compared as vectors. A name keeps its number while it is in use;
// afterwards the number goes to another name.
class ResourceNames {
 public:
  // Each use of a set's names ends with one release() of the same set.
  void acquire(const ResourceSet& set);
  void release(const ResourceSet& set);
  bool knows(const std::string& name) const { return numbers_.contains(name); }
  size_t size() const { return numbers_.size(); }
  // Dense amounts of the custom resources of `set`, whose names are in use.
  std::vector<Amount> custom(const ResourceSet& set) const;

 private:
  struct Entry {
    size_t number = 0;
    size_t uses = 0;
  };
  std::map<std::string, Entry, std::less<>> numbers_;
  std::set<size_t> unused_;  // Numbers below the highest one that was given out.
};

// What is free on a node (or all that it has).
struct Capacity {
  Amount gpus = 0;
  Amount cpus = 0;
  Amount memory = 0;
  std::vector<Amount> custom;  // Missing entries are 0.
  int64_t devices_free = 0;    // GPUs that nobody uses.
  Amount largest_part = 0;     // The most that is free of a GPU in use.
  uint32_t labels = 0;         // Number of the node's set of labels.

  auto operator<=>(const Capacity&) const = default;
};

// What a request asks.
struct Demand {
  Amount gpus = 0;
  Amount cpus = 0;
  Amount memory = 0;
  std::vector<Amount> custom;

  bool fits(const Capacity& capacity) const;
};

class CapacityIndex {
 public:
  using Slot = uint32_t;  // A node; the lowest wins a tie.

  // Adds the node or moves it.
  void set(Slot slot, Capacity capacity);
  void remove(Slot slot);  // Unknown: no effect.
  bool contains(Slot slot) const { return slots_.contains(slot); }

  // The fullest node that fits. `labels_match` is asked once an entry, `accepts` for its nodes in order.
  std::optional<Slot> find(const Demand& demand, const std::function<bool(uint32_t labels)>& labels_match,
                           const std::function<bool(Slot)>& accepts) const;
  size_t size() const { return slots_.size(); }

 private:
  using Entries = std::map<Capacity, std::set<Slot>>;
  Entries entries_;
  std::unordered_map<Slot, Entries::iterator> slots_;
};

}  // namespace volador::head
