// The metrics of a rung, in order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace volador::tune::determined {

struct RankedEntry {
  double metric = 0;   // Not NaN.
  uint32_t trial = 0;  // Its number in order of creation.
  bool promoted = false;
};

// Inserting and ranking take O(√n) time: a rung of 100,000 trials is a list of blocks.
class RankedEntries {
 public:
  enum class Ties : uint8_t { kAfter, kBefore };

  size_t size() const { return size_; }

  // Returns the rank of the entry, from 0, which stands after or before the ones with the same metric. Requires that
  // all were inserted, not appended.
  size_t insert(const RankedEntry& entry, Ties ties) {
    const auto stands_before = [&](const RankedEntry& other) {
      return ties == Ties::kAfter ? other.metric <= entry.metric : other.metric < entry.metric;
    };
    const auto block = std::partition_point(blocks_.begin(), blocks_.end(),
                                            [&](const Block& one) { return stands_before(one.back()); });
    size_t rank = 0;
    for (auto one = blocks_.begin(); one != block; ++one) rank += one->size();
    if (block == blocks_.end()) {
      append(entry);
      return rank;
    }
    const auto place = std::partition_point(block->begin(), block->end(), stands_before);
    rank += static_cast<size_t>(place - block->begin());
    block->insert(place, entry);
    ++size_;
    if (block->size() > kBlockMax) split(static_cast<size_t>(block - blocks_.begin()));
    return rank;
  }

  // Adds it at the end, whatever its metric is.
  void append(const RankedEntry& entry) {
    if (blocks_.empty() || blocks_.back().size() >= kBlockMax / 2) blocks_.emplace_back();
    blocks_.back().push_back(entry);
    ++size_;
  }

  // Requires rank < size().
  RankedEntry& at(size_t rank) {
    auto block = blocks_.begin();
    for (; rank >= block->size(); ++block) rank -= block->size();
    return (*block)[rank];
  }

  void erase(uint32_t trial) {
    for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
      const auto found =
          std::find_if(block->begin(), block->end(), [&](const RankedEntry& one) { return one.trial == trial; });
      if (found == block->end()) continue;
      block->erase(found);
      --size_;
      if (block->empty()) blocks_.erase(block);
      return;
    }
  }

  template <class F>
  void each(F&& f) const {
    for (const Block& block : blocks_) {
      for (const RankedEntry& entry : block) f(entry);
    }
  }

 private:
  using Block = std::vector<RankedEntry>;
  static constexpr size_t kBlockMax = 512;

  void split(size_t index) {
    Block& block = blocks_[index];
    const auto half = block.begin() + static_cast<ptrdiff_t>(block.size() / 2);
    Block upper(half, block.end());
    block.erase(half, block.end());
    blocks_.insert(blocks_.begin() + static_cast<ptrdiff_t>(index) + 1, std::move(upper));
  }

  std::vector<Block> blocks_;  // None is empty.
  size_t size_ = 0;
};

}  // namespace volador::tune::determined
