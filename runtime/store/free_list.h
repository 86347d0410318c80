// Which ranges of an arena are free: best fit, neighbours joined.
// Pure: no memory of the arena itself is touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace volador {

class FreeList {
 public:
  static constexpr size_t kAlignment = 64;  // Of every range: for SIMD, and no cache line of two objects.

  explicit FreeList(size_t bytes);

  // A range of at least one byte; none where no hole is large enough. O(log ranges).
  std::optional<size_t> allocate(size_t bytes);
  // `offset` came from allocate() and was not given back since.
  void free(size_t offset);

  size_t bytes() const { return bytes_; }
  size_t used() const { return used_; }  // With what alignment adds.
  bool is_empty() const { return used_ == 0; }

  // Aborts where holes overlap, touch, or do not add up.
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
