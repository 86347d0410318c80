// Order statistics of values: O(log n) rank and selection, and insertion that moves a few kilobytes at most.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace volador::tune {

// Ascending keys without NaN, in sorted blocks, with a Fenwick tree over the block sizes: half the time of a balanced
// tree with one node per value, and a quarter of its memory.
class Ranking {
 public:
  void insert(double key) {
    if (blocks_.empty()) add_block(0, {});
    const size_t block = std::min(block_of(key), blocks_.size() - 1);
    std::vector<double>& values = blocks_[block];
    values.insert(std::upper_bound(values.begin(), values.end(), key), key);
    last_[block] = values.back();
    ++size_;
    if (values.size() < kBlockMax) {
      for (size_t i = block + 1; i < counts_.size(); i += i & (0 - i)) ++counts_[i];
    } else {
      const auto middle = values.begin() + kBlockMax / 2;
      std::vector<double> upper(middle, values.end());
      values.erase(middle, values.end());
      last_[block] = values.back();
      add_block(block + 1, std::move(upper));
    }
  }

  size_t size() const { return size_; }

  // Returns the number of strictly smaller keys.
  size_t rank(double key) const {
    const size_t block = block_of(key);
    if (block == blocks_.size()) return size_;
    const std::vector<double>& values = blocks_[block];
    size_t smaller = static_cast<size_t>(std::lower_bound(values.begin(), values.end(), key) - values.begin());
    for (size_t i = block; i > 0; i -= i & (0 - i)) smaller += counts_[i];
    return smaller;
  }

  // `position` counts from 0 and is below size().
  double at(size_t position) const {
    size_t block = 0;
    for (size_t step = top_; step > 0; step /= 2) {
      if (block + step > blocks_.size() || counts_[block + step] > position) continue;
      block += step;
      position -= counts_[block];
    }
    return blocks_[block][position];
  }

 private:
  static constexpr size_t kBlockMax = 512;  // 4 KiB.

  // Returns the first block whose last value is not smaller.
  size_t block_of(double key) const {
    return static_cast<size_t>(std::lower_bound(last_.begin(), last_.end(), key) - last_.begin());
  }

  void add_block(size_t at, std::vector<double> values) {
    last_.insert(last_.begin() + static_cast<std::ptrdiff_t>(at), values.empty() ? 0 : values.back());
    blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(at), std::move(values));
    counts_.assign(blocks_.size() + 1, 0);
    for (size_t i = 1; i < counts_.size(); ++i) {
      counts_[i] += blocks_[i - 1].size();
      if (const size_t parent = i + (i & (0 - i)); parent < counts_.size()) counts_[parent] += counts_[i];
    }
    for (top_ = 1; top_ * 2 <= blocks_.size();) top_ *= 2;
  }

  std::vector<std::vector<double>> blocks_;  // None is empty once something was inserted.
  std::vector<double> last_;                 // Last value of each block.
  std::vector<size_t> counts_;               // Fenwick tree over the block sizes, from index 1.
  size_t top_ = 0;                           // Largest power of two that does not exceed the number of blocks.
  size_t size_ = 0;
};

}  // namespace volador::tune
