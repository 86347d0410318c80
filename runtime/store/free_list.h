// Free ranges of an arena: best fit with coalescing. Pure: does not touch the arena's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace volador {

// Allocator of ranges in one arena. Not thread safe.
class FreeList {
 public:
  static constexpr size_t kAlignment = 64;  // Alignment of ranges: for SIMD, and no shared cache lines.

  explicit FreeList(size_t bytes);

  // Returns the offset of a range of at least one byte; nothing if no hole is large enough. O(log ranges).
  std::optional<size_t> allocate(size_t bytes);
  // `offset` must come from allocate() and not be freed yet.
  void free(size_t offset);

  size_t bytes() const { return bytes_; }
  size_t used() const { return used_; }  // Including alignment.
  bool is_empty() const { return used_ == 0; }

  // Aborts if holes overlap, touch, or do not add up.
  void check_invariants() const;

 private:
  void add_hole(size_t offset, size_t bytes);
  void remove_hole(std::map<size_t, size_t>::iterator hole);

  const size_t bytes_;
  size_t used_ = 0;
  std::map<size_t, size_t> holes_;                  // Offset to size.
  std::set<std::pair<size_t, size_t>> by_size_;     // Size, offset.
  std::unordered_map<size_t, size_t> allocations_;  // Offset to size.
};

}  // namespace volador
