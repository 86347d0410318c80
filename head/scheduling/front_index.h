// Index of the first request of every waiting shape, in service order: finds the next request that fits a given amount
// without checking each one.
// Pure: no clock, thread, I/O or randomness.
//
// Sorted blocks of contiguous entries, each with the minimum of what its entries ask for: a look-up skips whole blocks
// and scans the others at memory speed. It costs O(shapes / kBlockMax) if no entry is small enough, and a few ns per
// shape at worst. The caller checks labels, programs and custom resources.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "head/scheduling/capacity_index.h"
#include "head/scheduling/holder.h"
#include "runtime/ids.h"
#include "runtime/result.h"

namespace volador::head {

// Service order: higher priority first, then earlier arrival.
struct RequestOrder {
  int32_t priority = 0;
  uint64_t sequence = 0;
  HolderId holder;  // The requester.
  bool operator<(const RequestOrder& other) const {
    if (priority != other.priority) return priority > other.priority;
    if (sequence != other.sequence) return sequence < other.sequence;
    return holder < other.holder;
  }
};

// The three amounts present in every request.
struct Amounts {
  Amount gpus = 0;
  Amount cpus = 0;
  Amount memory = 0;
  bool holds(const Amounts& asked) const { return asked.gpus <= gpus && asked.cpus <= cpus && asked.memory <= memory; }
  void raise_to(const Capacity& capacity) {
    gpus = std::max(gpus, capacity.gpus);
    cpus = std::max(cpus, capacity.cpus);
    memory = std::max(memory, capacity.memory);
  }
};

template <class Shape>
class FrontIndex {
 public:
  static constexpr size_t kBlockMax = 128;
  struct Entry {
    Amounts asks;
    RequestOrder order;
    Shape* shape = nullptr;
  };

  // The order must not be in the index.
  void insert(const RequestOrder& order, const Demand& demand, Shape* shape) {
    const Entry entry{{demand.gpus, demand.cpus, demand.memory}, order, shape};
    if (blocks_.empty()) blocks_.emplace_back();
    auto block = blocks_.front().entries.empty() ? blocks_.begin() : block_of(blocks_, order);
    if (block == blocks_.end()) --block;
    block->entries.insert(std::upper_bound(block->entries.begin(), block->entries.end(), entry, earlier), entry);
    ++size_;
    if (block->entries.size() > kBlockMax) {
      Block later;
      const auto half = block->entries.begin() + kBlockMax / 2;
      later.entries.assign(half, block->entries.end());
      block->entries.erase(half, block->entries.end());
      later.measure();
      block = std::prev(blocks_.insert(std::next(block), std::move(later)));
    }
    block->measure();
  }

  // The order must be in the index.
  void erase(const RequestOrder& order) {
    const auto block = block_of(blocks_, order);
    VOLADOR_CHECK(block != blocks_.end(), "no such front");
    const auto entry = std::lower_bound(block->entries.begin(), block->entries.end(), Entry{.order = order}, earlier);
    VOLADOR_CHECK(entry != block->entries.end() && !(order < entry->order), "no such front");
    block->entries.erase(entry);
    --size_;
    if (block->entries.empty()) {
      blocks_.erase(block);
    } else {
      block->measure();
    }
  }

  // The first entry after `from` (null: from the start) and before `until` (null: to the end) that asks for at most
  // `most`.
  const Entry* next(const RequestOrder* from, const RequestOrder* until, const Amounts& most) const {
    auto block = from == nullptr ? blocks_.begin() : block_of(blocks_, *from);
    for (; block != blocks_.end(); ++block) {
      if (until != nullptr && !(block->entries.front().order < *until)) return nullptr;
      if (!most.holds(block->least)) continue;
      for (const Entry& entry : block->entries) {
        if (!most.holds(entry.asks) || (from != nullptr && !(*from < entry.order))) continue;
        return until == nullptr || entry.order < *until ? &entry : nullptr;
      }
    }
    return nullptr;
  }

  size_t size() const { return size_; }

 private:
  struct Block {
    std::vector<Entry> entries;
    Amounts least;  // Minimum of each amount separately.
    void measure() {
      least = entries.front().asks;
      for (const Entry& entry : entries) {
        least.gpus = std::min(least.gpus, entry.asks.gpus);
        least.cpus = std::min(least.cpus, entry.asks.cpus);
        least.memory = std::min(least.memory, entry.asks.memory);
      }
    }
  };
  static bool earlier(const Entry& a, const Entry& b) { return a.order < b.order; }
  // The first block whose last entry is not before the order.
  template <class Blocks>
  static auto block_of(Blocks& blocks, const RequestOrder& order) {
    return std::lower_bound(blocks.begin(), blocks.end(), order, [](const Block& block, const RequestOrder& wanted) {
      return block.entries.back().order < wanted;
    });
  }

  std::vector<Block> blocks_;  // No block is empty, except the first one while the first entry is inserted.
  size_t size_ = 0;
};

}  // namespace volador::head
